"""Dataclasses that wait answer as those of the standard library."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import Any

import pytest

from kernelite.support.records import dataclass


def family(decorate: Callable[..., Any], **options: Any) -> tuple[type, type, type]:
    """A base, a child with more fields, and a plain class below it."""

    @decorate(**options)
    class Base:
        """Of one number."""

        a: float
        names: list[str] = field(default_factory=list)
        hidden: int = field(default=3, repr=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "sum", self.a + self.hidden)

    @decorate(**options)
    class Child(Base):
        """Of two."""

        b: float = 2.0

        def doubled(self) -> float:
            return 2 * self.b

    class Plain(Child):
        def __init__(self) -> None:
            super().__init__(a=5.0, b=7.0)

    return Base, Child, Plain


OPTIONS = [
    {},
    {"frozen": True},
    {"frozen": True, "eq": False},
    {"frozen": True, "eq": False, "repr": False},
    {"eq": False, "kw_only": True},
    {"order": True},
]


def said(classes: tuple[type, type, type], keywords: bool) -> list[Any]:
    """What the classes do, in words."""
    _, child, plain = classes
    found: list[Any] = []

    def tried(make: Callable[[], Any]) -> None:
        try:
            found.append(make())
        except Exception as error:
            found.append((type(error).__name__, str(error)))

    one = child(a=1.0) if keywords else child(1.0)
    other = child(a=1.0)
    tried(lambda: str(inspect.signature(child)))
    tried(lambda: [f.name for f in dataclasses.fields(child)])
    tried(lambda: one == other)
    tried(lambda: hash(one) == hash(other))
    tried(lambda: repr(one) if type(one).__repr__ is not object.__repr__ else "plain")
    tried(lambda: dataclasses.replace(one, b=4.0).doubled())
    tried(lambda: dataclasses.asdict(one))
    tried(lambda: setattr(one, "b", 1.0))
    tried(lambda: setattr(one, "other", 1.0))
    tried(lambda: delattr(one, "b"))
    tried(lambda: setattr(plain(), "other", 1.0))
    tried(lambda: setattr(plain(), "a", 1.0))
    tried(lambda: one.sum)
    tried(lambda: child.__match_args__)
    tried(lambda: child.hidden)
    tried(lambda: hasattr(child, "names"))
    tried(lambda: child())
    tried(lambda: one < other)
    tried(lambda: child.__doc__)
    return found


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_classes_do_what_the_standard_librarys_do(options: dict[str, Any]) -> None:
    keywords = "kw_only" in options
    theirs, ours = family(dataclasses.dataclass, **options), family(dataclass, **options)
    assert said(ours, keywords) == said(theirs, keywords)


@pytest.mark.parametrize("first", ["fields", "repr", "init", "signature"])
def test_whatever_is_asked_first_completes_the_class(first: str) -> None:
    base, child, _ = family(dataclass, frozen=True)
    if first == "fields":
        assert len(dataclasses.fields(child)) == 4
    elif first == "repr":
        empty = object.__new__(child)
        object.__setattr__(empty, "__dict__", {"a": 1.0, "names": [], "hidden": 1, "b": 0.5})
        assert "b=0.5" in repr(empty)
    elif first == "signature":
        assert list(inspect.signature(child).parameters) == ["a", "names", "hidden", "b"]
    assert child(1.0).b == 2.0
    assert base(1.0).hidden == 3
    assert dataclasses.is_dataclass(base)


@dataclass(frozen=True)
class Stored:
    """In a module, for pickle."""

    x: float


def test_a_pickle_needs_no_instance_before() -> None:
    assert pickle.loads(pickle.dumps(Stored(1.5))) == Stored(1.5)


def test_an_eager_class_inherits_from_one_that_waits() -> None:
    base, _, _ = family(dataclass, frozen=True)

    @dataclasses.dataclass(frozen=True)
    class Eager(base):  # type: ignore[misc, valid-type]
        c: int = 1

    assert Eager(1.0, c=2).c == 2


def test_slots_are_made_at_once() -> None:
    @dataclass(frozen=True, slots=True)
    class Slotted:
        x: float

    assert not hasattr(Slotted(1.0), "__dict__")


def test_many_threads_meet_a_class_at_once() -> None:
    for _ in range(20):
        _, child, _ = family(dataclass, frozen=True)
        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(child, range(64)))
        assert [one.a for one in made] == list(range(64))
