"""Dataclasses whose methods are generated when they are first used.

`dataclasses.dataclass` writes and compiles the source of up to six methods for each class as its
module is imported: half a millisecond. A process that loads one model imports a hundred such
classes and uses a third of them. `dataclass` of this module waits until an attribute that would be
generated is asked for, and then takes it from a twin of the class, which `dataclasses` completes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from threading import RLock
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

LOCK = RLock()
DATACLASS_MARKS = ("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__replace__")
ON_REQUEST = {"init": ("__init__",), "repr": ("__repr__",), "eq": ("__eq__", "__hash__")}
SERVED = {*ON_REQUEST, "frozen", "kw_only"}  # with other options nothing waits
NOT_COPIED = {"__dict__", "__weakref__", "__annotate_func__", "__annotations_cache__"}


class _Generated:
    """An attribute that is replaced by a generated one as soon as it is asked for."""

    def __init__(self, owner: type, name: str, generate: Callable[[], None]) -> None:
        self.owner, self.name, self.generate = owner, name, generate

    def __get__(self, instance: object, asked: type | None = None) -> Any:
        self.generate()
        try:
            found = self.owner.__dict__[self.name]
        except KeyError:
            raise AttributeError(self.name) from None
        return found.__get__(instance, asked) if hasattr(found, "__get__") else found


def _completed_later(owner: type, options: dict[str, Any]) -> type:
    """`owner`, with a `_Generated` for each attribute that is to be generated."""
    wanted = [*DATACLASS_MARKS, "__signature__"]  # the last is looked for where there is none
    for option, methods in ON_REQUEST.items():
        wanted += methods if options.get(option, True) else ()
    names = [name for name in wanted if name not in owner.__dict__]
    waiting = True

    def generate() -> None:
        nonlocal waiting
        with LOCK:
            if waiting:
                _take_over(owner, _twin(owner, {*names, "__setattr__", "__delattr__"}, options))
                for name in names:
                    if isinstance(owner.__dict__.get(name), _Generated):
                        delattr(owner, name)
                waiting = False

    for name in names:
        setattr(owner, name, _Generated(owner, name, generate))
    if options.get("frozen"):
        _freeze(owner)
    return owner


def _twin(owner: type, leave_out: set[str], options: dict[str, Any]) -> type:
    """The class that `dataclasses` makes of what the source of `owner` says.

    Its own, because a class that is changed in place would lack `__init__` for a while, which
    another thread could notice.
    """
    body = {k: v for k, v in owner.__dict__.items() if k not in leave_out | NOT_COPIED}
    body |= {"__annotations__": dict(owner.__annotations__), "__qualname__": owner.__qualname__}
    twin: type = type(owner)(owner.__name__, owner.__bases__, body)
    return dataclasses.dataclass(**options)(twin)


def _take_over(owner: type, twin: type) -> None:
    """Give `owner` what was generated for its twin, and the defaults of its fields."""
    for name, value in list(owner.__dict__.items()):
        if isinstance(value, _Generated) and name in twin.__dict__:
            setattr(owner, name, twin.__dict__[name])
        elif isinstance(value, dataclasses.Field):
            if name in twin.__dict__:
                setattr(owner, name, twin.__dict__[name])
            else:
                delattr(owner, name)


def _freeze(owner: Any) -> None:
    """Refuse to change fields; these two methods need no code of their own."""

    def refuse(self: Any, name: str, change: str) -> None:
        if type(self) is owner or name in owner.__dataclass_fields__:
            raise dataclasses.FrozenInstanceError(f"cannot {change} field {name!r}")

    def set_attribute(self: Any, name: str, value: Any) -> None:
        refuse(self, name, "assign to")
        super(owner, self).__setattr__(name, value)

    def delete_attribute(self: Any, name: str) -> None:
        refuse(self, name, "delete")
        super(owner, self).__delattr__(name)

    owner.__setattr__, owner.__delattr__ = set_attribute, delete_attribute


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        """As `dataclasses.dataclass`, with methods that are generated when they are first used.

        Parameters
        ----------
        cls : type
        **options
            As of `dataclasses.dataclass`.

        Examples
        --------
        >>> @dataclass(frozen=True)
        ... class Point:
        ...     x: float
        ...     y: float = 0.0
        >>> Point(2.0), Point(2.0) == Point(2.0)
        (Point(x=2.0, y=0.0), True)
        """
        if not options.keys() <= SERVED:
            return dataclasses.dataclass(cls, **options)
        if cls is None:
            return lambda cls: _completed_later(cls, options)
        return _completed_later(cls, options)
