"""Building a library of all kernels for one family of processors, ahead of time.

    python -m kernelite.backends.cpu.kernels.build --family x86-64-v4 --into DIR

numba makes an LLVM module of each kernel, in as many processes as there are cores; each becomes an
object of position-independent code that shows nothing but the kernel's entry, and the system's
linker makes a library of them. It needs nothing but the C library; what numba's runtime would do is
done by `_RUNTIME`. The same sources and tools give the same bytes.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from kernelite.backends.cpu.kernels import objects, providers
from kernelite.backends.cpu.kernels.compiling import KernelSource
from kernelite.support.errors import InputError, KerneliteError, missing_extra
from kernelite.support.files import why_distrusted
from kernelite.support.terminal import Progress

__all__ = ["build", "declare_all", "kept_at"]

MODULE, RUNTIME, POOL = "kernelite.backends.cpu.kernels.build", "runtime", "pool"
TRIPLE = "x86_64-unknown-linux-gnu"
# Beyond what the family says: 512 bits are as good as 256 on what has them for long.
FEATURES = {"x86-64-v4": "-prefer-256-bit", "x86-64-v3": ""}

# Memory for arrays that kernels make. numba keeps a count of references, a function to call at the
# end, a word for it, the address of the data and their size, and the allocator: 48 bytes. An array
# that lies in one piece is given another shape; others are not (the kernel fails).
_RUNTIME = """
target triple = "{triple}"
@{table} = global [{entries} x i64] zeroinitializer
declare ptr @malloc(i64)
declare void @free(ptr)
define hidden ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 %align) {{
  %wide = zext i32 %align to i64
  %head = add i64 %wide, 48
  %all = add i64 %size, %head
  %overflows = icmp ult i64 %all, %size
  br i1 %overflows, label %none, label %some
some:
  %info = call ptr @malloc(i64 %all)
  %failed = icmp eq ptr %info, null
  br i1 %failed, label %none, label %good
good:
  %start = ptrtoint ptr %info to i64
  %after = add i64 %start, %head
  %mask = sub i64 0, %wide
  %aligned = and i64 %after, %mask
  store i64 1, ptr %info
  %dtor = getelementptr i64, ptr %info, i64 1
  store i64 0, ptr %dtor
  %dtor_info = getelementptr i64, ptr %info, i64 2
  store i64 0, ptr %dtor_info
  %data = getelementptr i64, ptr %info, i64 3
  store i64 %aligned, ptr %data
  %bytes = getelementptr i64, ptr %info, i64 4
  store i64 %size, ptr %bytes
  %allocator = getelementptr i64, ptr %info, i64 5
  store i64 0, ptr %allocator
  ret ptr %info
none:
  ret ptr null
}}
define hidden ptr @NRT_MemInfo_alloc(i64 %size) {{
  %info = call ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 16)
  ret ptr %info
}}
define hidden ptr @NRT_Allocate(i64 %size) {{
  %found = call ptr @malloc(i64 %size)
  ret ptr %found
}}
define hidden void @NRT_Free(ptr %found) {{
  call void @free(ptr %found)
  ret void
}}
define hidden void @NRT_MemInfo_call_dtor(ptr %info) {{
  call void @free(ptr %info)
  ret void
}}
define hidden i32 @numba_attempt_nocopy_reshape(i64 %nd, ptr %shape, ptr %strides,
    i64 %new_nd, ptr %new_shape, ptr %new_strides, i64 %size, i32 %fortran) {{
start:
  br label %check
check:
  %i = phi i64 [ %nd, %start ], [ %below, %look ]
  %step = phi i64 [ %size, %start ], [ %wider, %look ]
  %seen = icmp sle i64 %i, 0
  br i1 %seen, label %fill, label %look
look:
  %below = sub i64 %i, 1
  %length_at = getelementptr i64, ptr %shape, i64 %below
  %length = load i64, ptr %length_at
  %wider = mul i64 %step, %length
  %stride_at = getelementptr i64, ptr %strides, i64 %below
  %stride = load i64, ptr %stride_at
  %same = icmp eq i64 %stride, %step
  br i1 %same, label %check, label %cannot
fill:
  %j = phi i64 [ %new_nd, %check ], [ %left, %put ]
  %new_step = phi i64 [ %size, %check ], [ %more, %put ]
  %done = icmp sle i64 %j, 0
  br i1 %done, label %compare, label %put
put:
  %left = sub i64 %j, 1
  %new_length_at = getelementptr i64, ptr %new_shape, i64 %left
  %new_length = load i64, ptr %new_length_at
  %new_stride_at = getelementptr i64, ptr %new_strides, i64 %left
  store i64 %new_step, ptr %new_stride_at
  %more = mul i64 %new_step, %new_length
  br label %fill
compare:
  %as_many = icmp eq i64 %step, %new_step
  %answer = zext i1 %as_many to i32
  ret i32 %answer
cannot:
  ret i32 0
}}
"""


def declare_all() -> list[KernelSource]:
    """Load each module with kernels; one that makes them on demand has `all_kernels`."""
    package = Path(__file__).parents[3]
    others = {"build", "entries", "tracing"}  # which load numba, and have none
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
) -> int:
    """Write a library to a path; the number of kernels in it.

    Parameters
    ----------
    family : str
    path : Path
    tell : callable, optional
        Told how many kernels are done, and of how many.
    only : collection of str, optional
        The symbols of some kernels; all by default.

    Raises
    ------
    InputError, MissingExtraError
        If there is no linker or no numba, or a kernel cannot be compiled.
    """
    if importlib.util.find_spec("numba") is None:
        raise missing_extra("building kernels needs numba", "numba", "jit")
    linker = _linker()
    with tempfile.TemporaryDirectory() as folder, _Workers(family, Path(folder)) as workers:
        names = sorted(set(workers.names) & set(only) if only else workers.names)
        workers.emit([*names, RUNTIME, POOL], lambda done: tell(min(done, len(names)), len(names)))
        library = Path(folder) / "library.so"
        _link(linker, [Path(folder) / f"{name}.o" for name in [*names, RUNTIME, POOL]], library)
        code = library.read_bytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(providers.finished(code, family))
    os.replace(temporary, path)
    return len(names)


class _Workers:
    """A process for each core, whose numba compiles for a family what it is given the name of."""

    def __init__(self, family: str, folder: Path) -> None:
        above, inherited = Path(__file__).parents[4], os.environ.get("PYTHONPATH", "")
        environment = {
            **os.environ,
            "PYTHONPATH": f"{above}{os.pathsep}{inherited}",
            "KERNELITE_KERNELS": "numba",
            "NUMBA_CPU_NAME": family,
            "NUMBA_CPU_FEATURES": FEATURES[family],
        }
        command = [sys.executable, "-m", MODULE, "--family", family, "--emit", str(folder)]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._processes = [
            subprocess.Popen(command, env=environment, **pipes) for _ in range(os.cpu_count() or 1)
        ]

    def __enter__(self) -> Self:
        lists = [self._line(process).split() for process in self._processes]
        self.names = lists[0]
        if not all(lists):
            self.__exit__()
            raise InputError("kernels cannot be compiled: numba fails, as it says above.")
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

    def emit(self, names: list[str], tell: Callable[[int], None]) -> None:
        """Have objects written, by whichever process is free."""
        waiting, done = list(names), []

        def work(process: Any) -> None:
            while waiting:
                name = waiting.pop()
                if self._line(process, f"{name}\n").strip() != name:
                    waiting.clear()
                    raise InputError(f"the kernel {name} cannot be compiled, as is said above.")
                done.append(name)
                tell(len(done))

        with ThreadPoolExecutor(len(self._processes)) as pool:
            list(pool.map(work, self._processes))


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


def _linker() -> str:
    found = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if found is None:
        raise InputError("there is no linker: none of cc, gcc and clang is installed.")
    return found


def _link(linker: str, objects: list[Path], library: Path) -> None:
    options = ["-shared", "-s", "-Wl,--build-id=none", "-Wl,-z,defs", "-Wl,--as-needed"]
    command = [linker, *options, "-o", str(library), *map(str, objects), "-lm"]
    found = subprocess.run(command, capture_output=True, text=True)
    if found.returncode:
        raise InputError(f"{linker} cannot make a library: {found.stderr.strip()[-500:]}")


def _emit(family: str, folder: Path) -> None:
    """Write objects of kernels whose names come on stdin; say each name when it is done."""
    import llvmlite.binding as llvm

    from kernelite.backends.cpu.kernels.entries import pool_text
    from kernelite.backends.cpu.kernels.tracing import library_of

    kernels = {kernel.symbol: kernel for kernel in declare_all()}
    target: Any = llvm.Target.from_triple(TRIPLE)
    machine = target.create_target_machine(
        cpu=family, features=FEATURES[family], opt=3, reloc="pic", codemodel="small"
    )
    print(*kernels, flush=True)
    for symbol in map(str.strip, sys.stdin):
        if symbol == RUNTIME:
            entries = len(objects.OBJECTS)
            text = _RUNTIME.format(triple=TRIPLE, table=objects.TABLE, entries=entries)
        elif symbol == POOL:
            text = f'target triple = "{TRIPLE}"\n' + pool_text("hidden")
        else:
            text = _without_exceptions(library_of(kernels[symbol]).get_llvm_str())
        module: Any = llvm.parse_assembly(text)
        if symbol not in (RUNTIME, POOL):
            _show_only(module, kernels[symbol].symbols)
        module.verify()
        (folder / f"{symbol}.o").write_bytes(machine.emit_object(module))
        print(symbol, flush=True)


def _without_exceptions(text: str) -> str:
    """A module without what would make Python's exceptions: an entry looks at a status alone.

    Descriptions of exceptions would bring paths of this machine into the library.
    """
    kind, value = r"(?:\[[^]]*\]|{[^}]*})", r"(?:c\"[^\"]*\"|{[^}]*})"
    described = rf"^(@\.const\.pickle(?:data|buf)\.\S+ = [^\[{{]*{kind}) {value}"
    text = re.sub(described, r"\1 zeroinitializer", text, flags=re.M)
    text = re.sub(r"^define [^\n]*@__excinfo_unwrap_args.*?^}\n", "", text, flags=re.S | re.M)
    return re.sub(r"@__excinfo_unwrap_args\w+", "null", text)


def _show_only(module: Any, symbols: Collection[str]) -> None:
    """Keep what entries need, and show nothing else: names of helpers are not unique."""
    import llvmlite.binding as llvm

    for value in [*module.functions, *module.global_variables]:
        if not value.is_declaration and value.name not in symbols:
            value.linkage = "internal"
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine()
    passes: Any = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))


def main(arguments: list[str] | None = None) -> int:
    """The command: builds what is not there, and says where it is."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}")
    parser.add_argument("--family", nargs="*", choices=[*providers.FAMILIES], help="this one's")
    parser.add_argument("--into", type=Path, help="folder; where they are found by default")
    parser.add_argument("--emit", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.emit:
        _emit(args.family[0], args.emit)
        return 0
    families = args.family or providers.families_here()[:1]
    try:
        if not families:
            raise InputError("name a family: this processor belongs to none.")
        for family in families:
            path = args.into / f"{family}.so" if args.into else kept_at(family)
            if providers.why_refused(path, family) is not None:
                with Progress(f"building kernels for {family}") as bar:
                    build(family, path, bar.reach)
            print(path)
    except KerneliteError as error:
        sys.exit(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
