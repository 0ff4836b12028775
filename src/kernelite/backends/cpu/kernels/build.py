"""Building a library of all kernels for one family of processors, ahead of time.

    python -m kernelite.backends.cpu.kernels.build --family x86-64-v4 --into DIR

numba makes an LLVM module of each kernel, in as many processes as there are cores (`emitting`);
each becomes an object of position-independent code that shows nothing but the kernel's entry, and
a linker makes a library of them. It needs nothing but the C library. The same sources and tools
give the same bytes.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Self

from kernelite.backends.cpu.kernels import providers
from kernelite.backends.cpu.kernels.compiling import KernelSource
from kernelite.backends.cpu.kernels.providers import FAMILIES, PART
from kernelite.support.errors import InputError, KerneliteError, missing_extra
from kernelite.support.files import open_to_others, why_distrusted
from kernelite.support.terminal import Progress

__all__ = [
    "ALWAYS",
    "FIRST_MODULES",
    "LAST_MODULES",
    "WarmUp",
    "build",
    "build_if_missing",
    "declare_all",
    "kept_at",
    "objects_beside",
    "warm_up",
]

ALWAYS = frozenset({"runtime", "pool"})  # objects of every library, besides those of kernels
# Modules of kernels, the longest at either end. Processes take from both ends in turn, so that each
# compiles helpers of its own end alone: forms share theirs, and so do panels; what is in the middle
# (modules that are not named here) shares none.
FIRST_MODULES: tuple[str, ...] = (
    *("coupling", "spectral_dense", "quadratic_dense", "third_dense", "spectral_sparse"),
    *("quadratic_sparse", "cubic", "judging", "bounds"),
)
LAST_MODULES: tuple[str, ...] = (
    *("local", "panels", "panel_sums", "triangle", "panel_values", "tangents"),
    *("tangent_values", "pairs"),
)
KEPT_SECONDS = 30 * 86400  # that an object is kept for which no library was made of


def declare_all() -> list[KernelSource]:
    """Load each module with kernels; one that makes them on demand has `all_kernels`."""
    package = Path(__file__).parents[3]
    # Which load numba, and have none.
    others = {"build", "emitting", "entries", "tracing"}
    for path in sorted(providers.kernel_files()):
        if path.stem not in others:
            inside = path.relative_to(package).with_suffix("")
            module: Any = import_module(".".join(("kernelite", *inside.parts)))
            if hasattr(module, "all_kernels"):
                module.all_kernels()
    return [k for k in providers.declared() if k.function.__module__.startswith("kernelite.")]


def build(
    family: str,
    path: Path,
    tell: Callable[[int, int], None] = lambda done, total: None,
    only: Collection[str] = (),
    objects: Path | None = None,
) -> int:
    """Write a library to a path; the number of kernels that were compiled for it.

    Parameters
    ----------
    family : str
    path : Path
    tell : callable, optional
        Told how many kernels are done, and of how many.
    only : collection of str, optional
        The symbols of some kernels; all by default. The library then says that it is a part.
    objects : Path, optional
        A folder that nobody else can write. Objects of kernels are kept there, so that the next
        time only those kernels are compiled whose sources have changed.

    Raises
    ------
    InputError, MissingExtraError
        If there is no linker or no numba, or a kernel cannot be compiled.
    """
    if importlib.util.find_spec("numba") is None:
        raise missing_extra("building kernels needs numba", "numba", "jit")
    linker, wanted = _linker(family), set(only)
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=objects) as folder,
        _Workers(family, Path(folder), len(wanted) or None) as workers,
    ):
        inside = objects or Path(folder)
        places = {
            name: inside / f"{name}-{key}.o"
            for name, key in sorted(workers.keys.items())
            if not wanted or name in wanted | ALWAYS
        }
        missing = [name for name, place in places.items() if not _is_kept(place)]
        kernels = set(missing) - ALWAYS

        def done(name: str, count: int) -> None:
            os.replace(Path(folder) / f"{name}.o", places[name])
            tell(min(count, len(kernels)), len(kernels))

        workers.emit(missing, done)
        library = Path(folder) / "library.so"
        _link(linker, list(places.values()), library)
        code = library.read_bytes()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(providers.finished(code, family + PART if wanted else family))
    os.replace(temporary, path)
    if objects is not None:
        _drop_old(objects)
    return len(kernels)


def _is_kept(path: Path) -> bool:
    """Whether an object is there that nobody else can have written; then it is in use again."""
    with suppress(OSError):
        state = path.lstat()
        if stat.S_ISREG(state.st_mode) and open_to_others(state) is None:
            os.utime(path)
            return True
    return False


def _drop_old(folder: Path) -> None:
    """Remove objects that nothing has been made of for long."""
    for path in folder.glob("*.o"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > KEPT_SECONDS:
                path.unlink()


class _Workers:
    """A process for each core, whose numba compiles for a family what it is given the name of.

    No more than there are kernels to compile, where that is known.
    """

    def __init__(self, family: str, folder: Path, most: int | None) -> None:
        above, inherited = Path(__file__).parents[4], os.environ.get("PYTHONPATH", "")
        environment = {
            **os.environ,
            "PYTHONPATH": f"{above}{os.pathsep}{inherited}",
            "KERNELITE_KERNELS": "numba",
        }
        command = [sys.executable, "-m", f"{__package__}.emitting", family, str(folder)]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        count = min(os.cpu_count() or 1, most or sys.maxsize)
        self._processes = [
            subprocess.Popen([*command, *["--keys"] * (i == 0)], env=environment, **pipes)
            for i in range(count)
        ]

    def __enter__(self) -> Self:
        lines = [self._line(process) for process in self._processes]
        if not all(lines):
            self.__exit__()
            raise InputError("kernels cannot be compiled: numba fails, as it says above.")
        self.keys: dict[str, str] = json.loads(lines[0])
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()

    @staticmethod
    def _line(process: Any, given: str = "") -> str:
        """What a process answers; nothing if it has ended."""
        with suppress(BrokenPipeError):
            process.stdin.write(given)
            process.stdin.flush()
        return str(process.stdout.readline())

    def emit(self, names: list[str], tell: Callable[[str, int], None]) -> None:
        """Have objects written, by whichever process is free; told each name, and how many."""
        waiting = deque(sorted(names, key=_place))
        done: list[str] = []

        def work(process: Any, take: Callable[[], str]) -> None:
            with suppress(IndexError):  # another process took the last one
                while waiting:
                    name = take()
                    if self._line(process, f"{name}\n").strip() != name:
                        waiting.clear()
                        raise InputError(f"the kernel {name} cannot be compiled, as is said above.")
                    done.append(name)
                    tell(name, len(done))

        ends = [(waiting.popleft, waiting.pop)[i % 2] for i in range(len(self._processes))]
        with ThreadPoolExecutor(len(self._processes)) as pool:
            list(pool.map(work, self._processes, ends))


def _place(name: str) -> tuple[int, str]:
    """Where a kernel stands in the order: with its module, and by its name."""
    for places, modules in ((-len(FIRST_MODULES), FIRST_MODULES), (1, LAST_MODULES)):
        for i, module in enumerate(modules):
            if name.startswith(f"{module}_"):
                return places + i, name
    return 0, name


def kept_at(family: str) -> Path:
    """Where a library is to be put: the first folder that is safe and can be written."""
    reasons = []
    for folder in providers.library_folders():
        reason = why_distrusted(folder)
        try:
            if reason is None:
                # Others may read: an image is warmed by root, and used by somebody else.
                folder.mkdir(mode=0o755, parents=True, exist_ok=True)
                if os.access(folder, os.W_OK):
                    return folder / providers.library_name(family)
                reason = f"`{folder}` cannot be written"
        except OSError as error:
            reason = f"`{folder}` cannot be made ({error.strerror or error})"
        reasons.append(reason)
    raise InputError(
        f"there is no folder for the kernels: {'; '.join(reasons)}. Set KERNELITE_CACHE to one "
        "that nobody else can write."
    )


def objects_beside(library: Path) -> Path | None:
    """The folder that keeps objects for a library, as safe as its own; None if there is none."""
    folder = library.with_name("objects")
    with suppress(OSError):
        folder.mkdir(mode=0o755, exist_ok=True)
        return folder if why_distrusted(folder) is None else None
    return None


def _linker(family: str) -> str:
    """The compiler of C that links for a family: this machine's own, or one for its machine."""
    machine = FAMILIES[family].machine
    names = ["cc", "gcc", "clang"]
    if platform.machine() != machine:
        names = [f"{machine}-linux-gnu-gcc", f"{machine}-unknown-linux-gnu-gcc"]
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise InputError(f"there is no linker for {machine}: none of {', '.join(names)} is found.")
    return found


def _link(linker: str, objects: list[Path], library: Path) -> None:
    options = ["-shared", "-s", "-Wl,--build-id=none", "-Wl,-z,defs", "-Wl,--as-needed"]
    command = [linker, *options, "-o", str(library), *map(str, objects), "-lm"]
    found = subprocess.run(command, capture_output=True, text=True)
    if found.returncode:
        raise InputError(f"{linker} cannot make a library: {found.stderr.strip()[-500:]}")


def main(arguments: list[str] | None = None) -> int:
    """The command: builds what is not there, and says where it is."""
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}.build")
    parser.add_argument("--family", nargs="*", choices=[*providers.FAMILIES], help="this one's")
    parser.add_argument("--into", type=Path, help="folder; where they are found by default")
    args = parser.parse_args(arguments)
    families = args.family or providers.families_here()[:1]
    try:
        if not families:
            raise InputError("name a family: this processor belongs to none.")
        for family in families:
            path = args.into / f"{family}.so" if args.into else kept_at(family)
            if providers.why_refused(path, family) is not None:
                kept = None if args.into else objects_beside(path)
                with Progress(f"building kernels for {family}") as bar:
                    build(family, path, bar.reach, objects=kept)
            print(path)
    except KerneliteError as error:
        sys.exit(str(error))
    return 0


# Building the kernels for this machine, where no wheel brought them.


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
    started, families = time.perf_counter(), providers.families_here()
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
        return WarmUp(family, 0, time.perf_counter() - started, found)
    path = kept_at(family + providers.PART if only else family)
    with Progress(f"building kernels for {family}, once") as bar:
        count = build(family, path, bar.reach, only, objects_beside(path))
    return WarmUp(family, count, time.perf_counter() - started, path)


if __name__ == "__main__":
    sys.exit(main())
