"""Compiled kernels kept between processes: one file per kernel, verified before it is unpickled.

    MAGIC, blake2b(identity of the kernel, code), code

The identity names all that the code depends on: sources, signature, processor, versions. So a file
that is damaged, or belongs to something else, is as good as none: the kernel is compiled again.
The digest finds damage; against other people there are the permissions of file and folder
(`kernelite.support.files`): a file that others could have written is never opened as code.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import pickle
import secrets
import stat
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from kernelite.support.files import cache_folder, open_to_others, why_distrusted

__all__ = ["KernelCache", "kernel_files", "kernel_folders"]

MAGIC = b"kernelite kernel 1\n"
SIZE = 32  # bytes of the digest


def kernel_folders() -> list[Path]:
    """Where kernels may lie, trusted or not: as asked for, beside the package, the user's own."""
    asked = os.environ.get("NUMBA_CACHE_DIR")
    wanted = [Path(asked) / "kernelite"] if asked else []
    if os.environ.get("KERNELITE_CACHE"):
        wanted.append(cache_folder() / "kernels")
    beside = Path(__file__).parents[2] / "__pycache__" / "kernels"
    with suppress(RuntimeError):  # a user without a home
        return [*wanted, beside, *([] if len(wanted) > 1 else [cache_folder() / "kernels"])]
    return [*wanted, beside]


class KernelCache:
    """What numba asks for compiled code and gives it to: the cache of one function.

    Parameters
    ----------
    function : callable
        To be compiled.
    tell_missed, tell_unkept : callables
        Called when nothing is kept, and (with the reason) when nothing can be.
    """

    cache_path = None  # numba's statistics want it

    def __init__(
        self,
        function: Callable[..., Any],
        tell_missed: Callable[[], None],
        tell_unkept: Callable[[str], None],
    ) -> None:
        self._function, self._tell_missed, self._tell_unkept = function, tell_missed, tell_unkept
        self.missed = False
        self.kept_in: Path | None = None

    def holds(self, signature: Any, target: Any) -> bool:
        """Whether `load_overload` would find the code."""
        name, identity = self._identity(signature, target.codegen())
        return any(_read(folder / name, identity) is not None for folder in _trusted())

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The compiled code, or None if it has to be compiled."""
        from numba.core.compiler import CompileResult

        target.refresh()
        name, identity = self._identity(signature, target.codegen())
        for folder in _trusted():
            code = _read(folder / name, identity)
            if code is None:
                continue
            # numba's own objects, made by us on this account; what fails to load is compiled.
            with suppress(Exception):
                rebuild: Any = CompileResult._rebuild
                return rebuild(target, *pickle.loads(code))
        self.missed = True
        self._tell_missed()
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep compiled code in the first folder that will do."""
        from numba.core import serialize

        if result.library.has_dynamic_globals:
            return  # addresses of this process
        name, identity = self._identity(signature, result.codegen)
        library: Any = serialize
        code: bytes = library.dumps(result._reduce())
        reasons = []
        for folder in kernel_folders():
            reason = why_distrusted(folder) or _write(folder, name, identity, code)
            if reason is None:
                self.kept_in = folder
                return
            reasons.append(reason)
        self._tell_unkept(reasons[0])

    def _identity(self, signature: Any, codegen: Any) -> tuple[str, bytes]:
        """A file's name, and what its digest covers besides the code."""
        import numba

        function = self._function
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        parts = (
            *(function.__module__, function.__qualname__, _fingerprint()),
            *(_source_digest(function), function.__code__.co_code.hex()),
            [value for value in cells if isinstance(value, bool | int | float | str)],
            *(str(signature), codegen.magic_tuple(), numba.__version__, sys.version),
        )
        identity = repr(parts).encode()
        short = hashlib.blake2b(identity, digest_size=10).hexdigest()
        base = f"{function.__module__}.{function.__name__}".removeprefix("kernelite.")
        return f"{base}-{short}.kernel", identity

    # numba may ask for these as well; there is nothing to do.
    def enable(self) -> None:
        """Nothing."""

    def disable(self) -> None:
        """Nothing."""

    def flush(self) -> None:
        """Nothing."""


def _trusted() -> list[Path]:
    return [folder for folder in kernel_folders() if _distrusted_once(folder) is None]


@cache
def _distrusted_once(folder: Path) -> str | None:
    # Not `folder.is_dir()`, which raises where a folder above may not be searched.
    return why_distrusted(folder) if os.path.isdir(folder) else "is not there"


def _digest(identity: bytes, code: bytes) -> bytes:
    state = hashlib.blake2b(len(identity).to_bytes(8, "little"), digest_size=SIZE)
    state.update(identity)
    state.update(code)
    return state.digest()


def _read(path: Path, identity: bytes) -> bytes | None:
    """The code in a file, if nobody else can have written it and all of it is there."""
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        with open(os.open(path, flags | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode) or open_to_others(state) is not None:
                return None
            data = file.read()
    except OSError:
        return None
    head = len(MAGIC) + SIZE
    code = data[head:]
    return code if data[:head] == MAGIC + _digest(identity, code) else None


def _write(folder: Path, name: str, identity: bytes, code: bytes) -> str | None:
    """Put a file into a folder, whole; returns why that cannot be."""
    temporary = folder / f".{name}.{secrets.token_hex(6)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        # Others may read: an image is warmed by root, and used by somebody else.
        with open(os.open(temporary, flags, 0o644), "wb") as file:
            file.write(MAGIC + _digest(identity, code) + code)
        os.replace(temporary, folder / name)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        return f"`{folder}` cannot be written ({error.strerror or error})"
    _distrusted_once.cache_clear()
    return None


def kernel_files() -> list[Path]:
    """The files that kernels are written in."""
    package = Path(__file__).parents[2]
    others = ("tables/libsvm_kernel.py", "explain/kernels.py")
    return [*package.glob("cpu/kernels/*.py"), *(package / path for path in others)]


@cache
def _fingerprint() -> str:
    """Changes with the kernels, their helpers, and the constants that come from the proof."""
    package = Path(__file__).parents[2]
    total = 0
    for file in sorted([*kernel_files(), package / "series" / "rounding.py"]):
        total = zlib.crc32(file.read_bytes(), total)
    return f"{total:08x}"


@cache
def _source_digest(function: Callable[..., Any]) -> str:
    """Of the file that a function is written in, where there is one."""
    try:
        data = Path(inspect.getfile(function)).read_bytes()
    except (OSError, TypeError):
        return ""
    return hashlib.blake2b(data, digest_size=SIZE).hexdigest()
