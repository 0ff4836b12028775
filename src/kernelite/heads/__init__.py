"""Heads, one file a kind of answer; `kernelite.head` names them all."""
