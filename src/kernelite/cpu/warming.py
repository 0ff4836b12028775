"""Compiling every kernel ahead: after an installation, or while an image is built."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from kernelite.errors import InputError
from kernelite.support.terminal import Progress

__all__ = ["WarmUp", "warm_up"]


class WarmUp(NamedTuple):
    """What `warm_up` did.

    Parameters
    ----------
    kernels : int
        How many there are, all ready now.
    compiled : int
        How many of them had to be compiled; the others were kept from an earlier time.
    seconds : float
    folder : Path, optional
        Where those that were compiled are kept now; None if they cannot be.
    """

    kernels: int
    compiled: int
    seconds: float
    folder: Path | None


def warm_up() -> WarmUp:
    """Compile all kernels and keep them, so that the first prediction need not wait.

    Kernels are kept beside the installation if that can be written, else in the user's cache
    folder ($KERNELITE_CACHE); never where another user could change them. Those that root made in
    an image are used by everybody. They belong to one kind of processor: on another they are
    compiled again.

    Returns
    -------
    WarmUp

    Raises
    ------
    InputError
        If there is no numba, so nothing to compile.

    Examples
    --------
    >>> done = warm_up()  # a minute, the first time
    >>> done.compiled <= done.kernels
    True
    """
    from kernelite.cpu.kernels.background import declared, is_prepared, no_notice, prepare_now
    from kernelite.cpu.kernels.compiling import jit_available

    if not jit_available():
        raise InputError("there is nothing to warm up: numba is not installed, or switched off.")
    started = perf_counter()
    _declare_all()
    kernels: list[Any] = declared()
    new = [kernel for kernel in kernels if not is_prepared(kernel)]
    with no_notice(), Progress("compiling kernels", len(kernels)) as bar:
        for kernel in kernels:
            prepare_now(kernel)
            bar.advance()
    compiled = [kernel._cache for kernel in new if kernel._cache.missed]
    folder = compiled[-1].kept_in if compiled else None
    return WarmUp(len(kernels), len(compiled), perf_counter() - started, folder)


def _declare_all() -> None:
    """Load each module with kernels; one that makes them on demand has `all_kernels`."""
    from kernelite.cpu.kernels.cache import kernel_files

    package = Path(__file__).parents[1]
    for path in sorted(kernel_files()):
        inside = path.relative_to(package).with_suffix("")
        module: Any = import_module(".".join(("kernelite", *inside.parts)))
        if hasattr(module, "all_kernels"):
            module.all_kernels()
