"""numba's front end made quicker, for a process that builds kernels and does nothing else.

Most of a build's time is numba's own Python, and some of that is spent in vain: whether two sets of
flags are equal is asked by listing all their values, variables of an instruction are looked for in
its place in the file, and a slice of a wrong length has its message written, by code that takes
longer to compile than many a kernel and differs from one time to the next.
"""

from __future__ import annotations

from typing import Any

__all__ = ["quicken"]

TRIED_NUMBA = "0.68."  # of numba: these changes reach into its internals, which have no promise


def quicken() -> None:
    """Change numba in this process, if it is a version that this was tried with."""
    import numba

    if not numba.__version__.startswith(TRIED_NUMBA):
        return
    for change in (_flags, _variables, _wrong_shapes):
        change()


def _flags() -> None:
    """Flags are mostly the same object; else what was set is compared before all there is."""
    from numba.core import targetconfig

    config: Any = targetconfig.TargetConfig
    thorough = config.__eq__

    def equal(self: Any, other: Any) -> Any:
        if self is other:
            return True
        if type(self) is type(other) and self._values == other._values:
            return True
        return thorough(self, other)

    names: dict[type, int] = {}

    def hashed(self: Any) -> int:
        """As numba's own, which takes in the options' names and none of their values."""
        kind = type(self)
        if kind not in names:
            names[kind] = hash(tuple(sorted(self.options)))
        return names[kind]

    config.__eq__, config.__hash__ = equal, hashed


def _variables() -> None:
    """Attributes that are no variables are told apart by their class alone."""
    from numba.core import ir as module

    ir: Any = module

    def listed(self: Any, value: Any) -> list[Any]:
        kind = type(value)
        if kind is ir.Var:
            return [value]
        if kind is ir.Loc or kind is str or value is None:
            return []
        if kind is dict:
            value = value.values()
        elif kind is not list and kind is not tuple:
            return value.list_vars() if isinstance(value, ir.Inst) else listed_slowly(self, value)
        found: list[Any] = []
        for one in value:
            kind = type(one)
            if kind is ir.Var:
                found.append(one)
            elif not (kind is ir.Loc or kind is str or one is None):
                found += listed(self, one)
        return found

    listed_slowly = ir.Inst._rec_list_vars
    ir.Inst._rec_list_vars = listed


def _wrong_shapes() -> None:
    """Slices of unequal length fail without a message, which nobody reads, and not by text."""
    from numba.core import types
    from numba.extending import overload
    from numba.np import arrayobj

    def raise_with_shape_context(source: Any, index: Any) -> None:
        raise NotImplementedError

    @overload(raise_with_shape_context)
    def _raise(source: Any, index: Any) -> Any:
        def fail(source: Any, index: Any) -> None:
            raise ValueError("cannot assign slice from input of different size")

        return fail if isinstance(source, types.BaseTuple) else None

    arrayobj.raise_with_shape_context = raise_with_shape_context
