"""Building the kernels for this machine, where no wheel brought them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from kernelite.support.errors import InputError
from kernelite.support.terminal import Progress

__all__ = ["WarmUp", "build_if_missing", "warm_up"]


class WarmUp(NamedTuple):
    """What `warm_up` did.

    Parameters
    ----------
    family : str
        Of processors, which the kernels are for.
    kernels : int
        How many were compiled; 0 if they were there.
    seconds : float
    path : Path
        The library that they are in.
    """

    family: str
    kernels: int
    seconds: float
    path: Path


def warm_up() -> WarmUp:
    """Build all kernels for this machine's processor and keep them, if nobody did.

    The library is put beside the installation if that can be written, else into the user's cache
    folder ($KERNELITE_CACHE); never where another user could change it. What root builds in an
    image is used by everybody.

    Returns
    -------
    WarmUp

    Raises
    ------
    InputError
        If it cannot be built: for want of numba or a linker, a known processor, or a safe folder.

    Examples
    --------
    >>> warm_up().seconds >= 0.0  # half a minute, the first time
    True
    """
    return build_if_missing()


def build_if_missing(only: Collection[str] = ()) -> WarmUp:
    """As `warm_up`; where there are none, build some kernels only, if their symbols are given.

    What is compiled is kept: who builds all kernels later compiles the others.
    """
    from kernelite.backends.cpu.kernels import providers
    from kernelite.backends.cpu.kernels.build import build, kept_at, objects_beside

    started, families = perf_counter(), providers.families_here()
    if not families:
        known = ", ".join(providers.FAMILIES)
        raise InputError(
            f"libraries of kernels are for Linux on processors of the families {known}; "
            "elsewhere numba compiles kernels when they are first used."
        )
    family = families[0]
    found = providers.library_path(family)
    if found is None and only:
        found = providers.library_path(family + providers.PART)
    if found is not None:
        return WarmUp(family, 0, perf_counter() - started, found)
    path = kept_at(family + providers.PART if only else family)
    with Progress(f"building kernels for {family}, once") as bar:
        count = build(family, path, bar.reach, only, objects_beside(path))
    return WarmUp(family, count, perf_counter() - started, path)
