"""From a fitted model to a compiled one: `driver` has `compile`, which orders the passes.

`task` is what the passes share (a machine, a sample, expansion points), `passes` has one a
guarantee, and `composite` compiles models of several parts, each by itself.
"""

from __future__ import annotations

from kernelite.model.compiler.driver import GUARANTEES, compile

__all__ = ["GUARANTEES", "compile"]
