"""Heads turn scores into answers, one file a kind of answer; `kernelite.head` names them all.

`base` is the protocol. `members` are the machines of an ensemble, `ranges` is interval arithmetic
on what heads answer, and `criteria` say, by both, when a row needs no further tier.
"""
