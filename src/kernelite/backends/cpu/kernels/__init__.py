"""Compiled code for this CPU, and how it is compiled, kept and made ready."""
