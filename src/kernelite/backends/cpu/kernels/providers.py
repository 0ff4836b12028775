"""Who provides the kernels' addresses: a library that was built ahead, numba, or nobody.

A library holds all kernels for one family of processors. It lies in the installed package, or
where `kernelite warm-up` put it: beside the package, or in the user's cache folder, if nobody else
can write there (`kernelite.support.files`). Behind the code stands a trailer,

    MAGIC, digest of the kernels' sources and the family, digest of all this

so that one which is damaged, or was made of other sources, is refused in one sentence. Then the
next provider answers: another library, numba where it is installed, else NumPy alone.

A library of some kernels, as `kernelite demo` builds it, has a family's name followed by `PART`, in
the file's name and in the trailer: it is never taken for one of all. It serves where there is no
such library, and numba compiles what is not in it.

$KERNELITE_KERNELS chooses, for tests: a family of this processor, `numba`, or `numpy` for none. If
there is no library of a family that it names, nobody else answers in its place.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import platform
import stat
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kernelite.backends.cpu.kernels import objects
from kernelite.support.errors import MissingExtraError
from kernelite.support.files import cache_folder, open_to_others, why_distrusted

if TYPE_CHECKING:
    from kernelite.backends.cpu.kernels.compiling import KernelSource

__all__ = [
    "FAMILIES",
    "PART",
    "Family",
    "JitWarning",
    "address",
    "declare",
    "declared",
    "families_here",
    "finished",
    "identity",
    "jit_available",
    "kernel_files",
    "library_folders",
    "library_name",
    "library_path",
    "pool_server",
    "provider",
    "provides",
    "source_files",
    "why_refused",
    "wide_vectors",
]

MAGIC = b"kernelite kernels 1\n"
SIZE = 32  # bytes of a digest
PART = "-part"  # behind a family's name: a library of some of its kernels


class Family(NamedTuple):
    """Processors that one library serves.

    Parameters
    ----------
    machine : str
        As the system names it.
    processor : str
        As LLVM names it: one of the family, which code is laid out for.
    features : str
        What LLVM is told beyond that; what others of the family lack is taken away.
    flags : tuple of str
        What Linux must say that it can do.
    wide : bool
        Whether vectors have 512 bits. Else code is written for 256, which NEON takes in two halves:
        it has as many registers of half the size twice.
    """

    machine: str
    processor: str
    features: str = ""
    flags: tuple[str, ...] = ()
    wide: bool = False

    @property
    def triple(self) -> str:
        """As compilers name it."""
        return f"{self.machine}-unknown-linux-gnu"


_V3 = ("avx2", "fma", "bmi1", "bmi2", "f16c", "abm", "movbe", "popcnt")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
# What znver4 has beyond x86-64-v4. Code that LLVM lays out for it is up to a third faster on other
# processors too than code for none in particular.
_BEYOND_V4 = (
    *("avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512vnni", "avx512bitalg", "avx512vpopcntdq"),
    *("avx512bf16", "gfni", "vaes", "vpclmulqdq", "aes", "pclmul", "sha", "sse4a", "adx", "shstk"),
    *("clflushopt", "clwb", "clzero", "fsgsbase", "invpcid", "mwaitx", "pku", "prfchw", "rdpid"),
    *("rdpru", "rdrnd", "rdseed", "wbnoinvd", "xsavec", "xsaveopt", "xsaves"),
)
_V4_FEATURES = ",".join(["+avx512f", "+avx512dq", *(f"-{name}" for name in _BEYOND_V4)])
# The best of a machine first. 512 bits are as good as 256 on what has them for long.
FAMILIES = {
    "x86-64-v4": Family("x86_64", "znver4", _V4_FEATURES, _V4, wide=True),
    "x86-64-v3": Family("x86_64", "x86-64-v3", "", _V3),
    "aarch64": Family("aarch64", "generic", "+neon"),
}
_PACKAGE = Path(__file__).parents[3]


class JitWarning(UserWarning):
    """The fused kernels cannot be used, or only slowly be had; answers stay the same."""


_kernels: dict[str, KernelSource] = {}


def declare(kernel: KernelSource) -> None:
    """Remember a kernel, so that it can be built."""
    _kernels[kernel.symbol] = kernel


def declared() -> list[KernelSource]:
    """All kernels so far."""
    return list(_kernels.values())


class _Library:
    """Kernels that were built ahead; numba compiles what is not among them."""

    def __init__(self, family: str, loaded: ctypes.CDLL) -> None:
        self.family, self._loaded = family, loaded
        self.wide = FAMILIES[family].wide

    def address(self, kernel: KernelSource, symbol: str) -> int:
        try:
            return ctypes.cast(self._loaded[symbol], ctypes.c_void_p).value or 0
        except AttributeError:  # a library of some, or a kernel that a test declares
            return _Numba().address(kernel, symbol)

    def provides(self, kernel: KernelSource) -> bool:
        return hasattr(self._loaded, kernel.symbol) or _against_numba() is None

    def server(self) -> int:
        return ctypes.cast(self._loaded[objects.SERVER], ctypes.c_void_p).value or 0


class _Numba:
    """Kernels that are compiled when they are first called."""

    family = "numba"

    def provides(self, kernel: KernelSource) -> bool:
        return True

    @property
    def wide(self) -> bool:
        from kernelite.backends.cpu.kernels.tracing import target_is_wide

        return target_is_wide()

    def address(self, kernel: KernelSource, symbol: str) -> int:
        from kernelite.backends.cpu.kernels.tracing import compiled_now

        _tell_that_numba_compiles()
        return compiled_now(kernel, symbol)

    def server(self) -> int:
        from kernelite.backends.cpu.kernels.tracing import pool_compiled_now

        return pool_compiled_now()


@cache
def provider() -> _Library | _Numba | None:
    """Who provides kernels in this process; None: nobody, which a warning has said."""
    asked = os.environ.get("KERNELITE_KERNELS", "")
    known = families_here()
    if asked not in ("", "numba", "numpy", *known):
        choices = ", ".join(["numba", "numpy", *known])
        raise MissingExtraError(
            f"the environment variable KERNELITE_KERNELS is `{asked}`, which this machine has no "
            f"kernels for; unset it, or set one of {choices}."
        )
    reason: str | None = "kernels are switched off by KERNELITE_KERNELS"
    if asked != "numpy":
        for family in [] if asked == "numba" else known:
            if asked in ("", family) and (found := _library(family)) is not None:
                return found
        if asked in known:
            builds = f"python -m {__package__}.build --family {asked}"
            raise MissingExtraError(
                f"the environment variable KERNELITE_KERNELS is `{asked}`, and there is no library "
                f"of these kernels; unset it, or build them by `{builds}`."
            )
        reason = objects.why_unlike() or _against_numba()
        if reason is None:
            return _Numba()
        reason = f"no library of kernels fits this machine, and {reason}"
    message = f"{reason}; predicting takes several times longer. See `kernelite warm-up --help`."
    warnings.warn(JitWarning(message), stacklevel=3)
    return None


def jit_available() -> bool:
    """Whether fused kernels can be used; says once, in a warning, why not.

    Examples
    --------
    >>> isinstance(jit_available(), bool)
    True
    """
    return provider() is not None


def wide_vectors() -> bool:
    """Whether kernels have vectors of 512 bits, with what `exp2` asks of them."""
    found = provider()
    return found is not None and found.wide


def address(kernel: KernelSource, symbol: str) -> int:
    """Where a kernel's compiled code is; `symbol` names which of its entries."""
    found = provider()
    if found is None:
        raise RuntimeError(f"{kernel.symbol} has no compiled code; ask `jit_available` first.")
    return found.address(kernel, symbol)


def provides(kernel: KernelSource) -> bool:
    """Whether a kernel that is not part of this package can be had too."""
    found = provider()
    return found is not None and found.provides(kernel)


def pool_server() -> int:
    """Where the function is that a thread of the pool runs for good."""
    found = provider()
    assert found is not None
    return found.server()


@cache
def _tell_that_numba_compiles() -> None:
    """Say once that answers wait for the compiler, unless that is asked for.

    Through `logging`, at a level that shows on stderr where nothing is configured: a warning might
    be turned into an error, and there is nothing wrong.
    """
    if os.environ.get("KERNELITE_KERNELS") != "numba":
        import logging  # here, since few need it when they start

        logging.getLogger("kernelite").warning(
            "kernelite: numba compiles kernels, in every process anew; "
            "`kernelite warm-up` builds them once"
        )


def _against_numba() -> str | None:
    if importlib.util.find_spec("numba") is None:
        return "numba is not installed"
    try:
        import numba
    except Exception as error:  # an old numba under a new NumPy raises more than ImportError
        return f"numba does not load ({error})"
    off = getattr(numba.config, "DISABLE_JIT", False)
    return "numba is switched off by NUMBA_DISABLE_JIT" if off else None


# Libraries


def families_here() -> list[str]:
    """The families that this processor belongs to, the best first."""
    if sys.platform != "linux":
        return []
    machine, flags = platform.machine(), set[str]()
    # Bytes: text would import a codec, and a fork while another thread imports locks the child.
    with suppress(OSError), open("/proc/cpuinfo", "rb") as file:
        words = next((line.split() for line in file if line.startswith(b"flags")), [])
        flags = {word.decode(errors="replace") for word in words}
    return [
        name
        for name, one in FAMILIES.items()
        if one.machine == machine and flags.issuperset(one.flags)
    ]


def library_folders() -> list[Path]:
    """Where libraries may be put, trusted or not: as asked for, beside the package, the user's."""
    beside = _PACKAGE / "__pycache__" / "kernels"
    with suppress(RuntimeError):  # a user without a home
        own = cache_folder() / "kernels"
        return [own, beside] if os.environ.get("KERNELITE_CACHE") else [beside, own]
    return [beside]


def library_name(family: str) -> str:
    """The file's name in such a folder."""
    return f"{family}-{identity(family).hex()[:20]}.so"


def library_path(family: str) -> Path | None:
    """The library of a family that is used here; a warning says of others why they are not.

    With `PART` behind the family's name, here and below: one of some kernels.
    """
    for path in _places(family):
        reason = why_refused(path, family)
        if reason is None:
            return path
        warnings.warn(JitWarning(f"the kernels in `{path}` are not used: {reason}."), stacklevel=5)
    return None


def _library(family: str) -> _Library | None:
    path = library_path(family)
    if path is None:
        path = library_path(family + PART)
        if path is None or _against_numba() is not None:
            return None
    try:
        return _Library(family, _loaded(path))
    except (OSError, ValueError) as error:  # no library, or one without the table
        message = f"the kernels in `{path}` are not used: {error}."
        warnings.warn(JitWarning(message), stacklevel=4)
        return None


def _places(family: str) -> Iterator[Path]:
    """Libraries of a family that nobody else can have written, unless the package itself is."""
    installed = Path(__file__).parent / f"{family}.so"
    if installed.exists():
        yield installed
    for folder in library_folders():
        path = folder / library_name(family)
        # Not `path.exists()`, which raises where a folder above may not be searched.
        if os.path.isfile(path) and why_distrusted(folder) is None:
            state = path.lstat()
            if stat.S_ISREG(state.st_mode) and open_to_others(state) is None:
                yield path


def finished(code: bytes, family: str) -> bytes:
    """A library with its trailer."""
    whole = code + MAGIC + identity(family)
    return whole + hashlib.blake2b(whole, digest_size=SIZE).digest()


def why_refused(path: Path, family: str) -> str | None:
    """Why a file is not a library of these sources for this Python; None if it is."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return f"it cannot be read ({error.strerror or error})"
    whole, digest = data[:-SIZE], data[-SIZE:]
    if hashlib.blake2b(whole, digest_size=SIZE).digest() != digest:
        return "it is damaged"
    if whole[-SIZE - len(MAGIC) :] != MAGIC + identity(family):
        return "it was made of other sources"
    return objects.why_unlike()


def _loaded(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    table = objects.object_table()
    type(table).in_dll(library, objects.TABLE)[:] = table
    return library


def kernel_files() -> list[Path]:
    """The files that kernels are written in."""
    profiles = (f"machine/kernels/{name}.py" for name in ("exponential", "powers", "radial"))
    others = ("data/tables/libsvm_kernel.py", "explain/kernels.py", *profiles)
    here = _PACKAGE / "backends/cpu/kernels"
    mine = (here / name for name in os.listdir(here) if name.endswith(".py"))  # sooner than `glob`
    return [*mine, *(_PACKAGE / path for path in others)]


def identity(family: str) -> bytes:
    """Changes with the family and the sources."""
    return hashlib.blake2b(_sources() + family.encode(), digest_size=SIZE).digest()


def source_files() -> dict[str, Path]:
    """All files that change what is compiled, by module: those, and constants of the proof."""
    constants = ("series/rounding.py", "series/remainder.py", "program/bounded.py")
    files = [*kernel_files(), *(_PACKAGE / name for name in constants)]
    inside = {path.relative_to(_PACKAGE).with_suffix(""): path for path in sorted(files)}
    return {".".join(("kernelite", *name.parts)): path for name, path in inside.items()}


@cache
def _sources() -> bytes:
    """Changes with any of them."""
    state = hashlib.blake2b(digest_size=SIZE)
    for path in source_files().values():
        state.update(path.read_bytes())
    return state.digest()
