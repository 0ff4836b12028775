"""Methods that exist only where the source had them.

In: a method of a class whose instances say, in `offers`, which of their methods exist. Out: the
same method, absent (`hasattr` is False) on instances that do not name it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, TypeVar

__all__ = ["offered"]

Method = TypeVar("Method", bound=Callable[..., Any])


class _Offered:
    """A descriptor: binds the method, or raises AttributeError."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Callable[..., Any]:
        if instance is None:  # on the class, for documentation
            return self.method
        name = self.method.__name__
        if name not in instance.offers:
            known = ", ".join(sorted(instance.offers))
            raise AttributeError(
                f"this model has no `{name}`, since what it was compiled from has none; "
                f"it has: {known}."
            )
        return MethodType(self.method, instance)


def offered(method: Method) -> Method:
    """Offer a method only on instances whose `offers` contains its name.

    Examples
    --------
    >>> class Model:
    ...     offers = frozenset({"predict"})
    ...
    ...     @offered
    ...     def predict(self):
    ...         return 1
    ...
    ...     @offered
    ...     def transform(self):
    ...         return 2
    >>> hasattr(Model(), "predict"), hasattr(Model(), "transform")
    (True, False)
    """
    return _Offered(method)  # type: ignore[return-value]
