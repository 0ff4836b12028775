"""What a process of `build` does: objects of kernels for one family of processors.

    python -m kernelite.backends.cpu.kernels.emitting x86-64-v4 FOLDER [--keys]

It says in one line of JSON, if it is asked to, which kernels there are, and by which key an object
of each is kept. Then it reads names of kernels, writes an object of each, and says its name again.
numba compiles for the family, which need not be this machine's, and loads nothing of it.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import json
import re
import sys
from collections.abc import Collection
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from numba.core.codegen import AOTCodeLibrary, AOTCPUCodegen
from numba.core.registry import cpu_target

from kernelite.backends.cpu.kernels import objects, providers
from kernelite.backends.cpu.kernels.build import ALWAYS, declare_all
from kernelite.backends.cpu.kernels.compiling import KernelSource
from kernelite.backends.cpu.kernels.pool import pool_text
from kernelite.backends.cpu.kernels.providers import FAMILIES

__all__ = []

# numba's front end made quicker, for a process that builds kernels and does nothing else.
#
# Half of a build's time is numba's own Python, and some of that is spent in vain: whether two sets
# of flags are equal is asked by listing all their values, variables of an instruction are looked
# for in its place in the file, what a sum of two numbers is of is asked of all overloads each time,
# and a slice of a wrong length has its message written, by code that takes longer to compile than
# many a kernel and differs from one time to the next.

TRIED_NUMBA = "0.68."  # of numba: these changes reach into its internals, which have no promise


def quicken() -> None:
    """Change numba in this process, if it is a version that this was tried with."""
    import numba

    if not numba.__version__.startswith(TRIED_NUMBA):
        return
    for change in (_flags, _variables, _calls, _wrong_shapes):
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


def _calls() -> None:
    """Of the same types, the same operation has the same type: nine calls of ten were seen before.

    Not of functions that are compiled for whoever calls them: these may be others for other flags.
    """
    from numba.core.types import functions

    base: Any = functions.BaseFunction
    slowly = base.get_call_type

    def call_type(self: Any, context: Any, arguments: Any, named: Any) -> Any:
        seen = self.__dict__.setdefault("_seen", {})
        if not named and arguments in seen:
            return seen[arguments]
        found = slowly(self, context, arguments, named)
        if not named and self._impl_keys[found.args] is self.typing_key:
            seen[arguments] = found
        return found

    base.get_call_type = call_type


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


# What every object is made by, besides the kernel's own sources.
_MAKERS = ("compiling", "emitting", "entries", "objects", "pool", "tracing")

# Memory for arrays that kernels make. numba keeps a count of references, a function to call at the
# end, a word for it, the address of the data and their size, and the allocator: 48 bytes. An array
# that lies in one piece is given another shape; others are not (the kernel fails). Data begin with
# a line of the cache: numba asks for half of one, and the widest vectors would lie across two.
LEAST_ALIGNED_BYTES = 64
_RUNTIME = """
target triple = "{triple}"
@{table} = global [{entries} x i64] zeroinitializer
declare ptr @malloc(i64)
declare void @free(ptr)
define hidden ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 %align) {{
  %asked = zext i32 %align to i64
  %less = icmp ult i64 %asked, {cache_line}
  %wide = select i1 %less, i64 {cache_line}, i64 %asked
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


# numba for another processor


class _ObjectLibrary(AOTCodeLibrary):
    """Code that is optimised when all of it is together: a kernel, with its helpers.

    Helpers by themselves are inlined into each other and no more, which saves a third of the time.
    """

    def _ensure_finalized(self) -> None:
        if not self._finalized:
            for library in dict.fromkeys(self._linking_libraries):
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
            passes, builder = self._codegen._module_pass_manager(
                loop_vectorize=False, slp_vectorize=False, opt=0, cost="cheap"
            )
            passes.run(self._final_module, builder)
            self._finalized = True


class _Codegen(AOTCPUCodegen):
    """numba's way to code for a family of processors."""

    _library_class = _ObjectLibrary

    def __init__(self, family: str) -> None:
        self.family = FAMILIES[family]
        super().__init__("kernelite", self.family.processor)

    def _init(self, _module: Any) -> None:
        self._tm, self._tm_features = machine_for(self.family), self.family.features
        self._target_data = self._tm.target_data
        self._data_layout = str(self._target_data)
        self._loopvect, self._opt_level = False, 0  # of the passes before references are counted

    def _create_empty_module(self, name: str) -> Any:
        module = super()._create_empty_module(name)
        module.triple = self.family.triple
        return module

    def magic_tuple(self) -> tuple[str, str, str]:
        """What the code depends on."""
        return self.family.triple, self.family.processor, self.family.features


def machine_for(family: providers.Family) -> Any:
    """What LLVM emits code for."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target: Any = llvm.Target.from_triple(family.triple)
    # Constants that are near would be read from memory whenever a loop needs them; of far ones, for
    # whose addresses aarch64 has no code, loops keep as many as they can in registers.
    model = "large" if family.machine == "x86_64" else "small"
    return target.create_target_machine(
        cpu=family.processor, features=family.features, opt=3, reloc="pic", codemodel=model
    )


def compile_for(family: str) -> None:
    """Have numba compile for a family from now on in this process, which then cannot run it."""
    context: Any = cpu_target.target_context
    context._internal_codegen, context.aot_mode = _Codegen(family), True
    # Nobody calls from Python what is compiled; each function needs something of this type.
    context.get_executable = lambda *_: object().__dir__
    context.create_cpython_wrapper = context.create_cfunc_wrapper = lambda *_, **__: None


# What an object depends on


def _key(family: str, module: str) -> str:
    """Changes with all that the object of a kernel in a module is made of."""
    state = hashlib.blake2b(digest_size=10)
    for name in ("numba", "llvmlite"):
        state.update(metadata.version(name).encode())
    state.update(repr((family, FAMILIES[family])).encode())
    files = providers.source_files()
    makers = {f"{__package__}.{name}" for name in _MAKERS}
    # Who provides what was compiled says nothing about the code but the family.
    known = makers | {f"{__package__}.providers"}
    needed = waiting = {module} - known
    while waiting:
        waiting = {one for name in waiting for one in _imports(files[name])} - needed - known
        needed = needed | waiting
    for name in sorted(needed | makers):
        state.update(_meaning(files[name]))
    return state.hexdigest()


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


@cache
def _meaning(path: Path) -> bytes:
    """Changes with what a file says, and not with its comments and line breaks."""
    return hashlib.blake2b(ast.dump(_tree(path)).encode()).digest()


@cache
def _imports(path: Path) -> frozenset[str]:
    """The modules with sources of kernels that a file imports; of a package all that are in it."""
    files = providers.source_files()
    named = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            named |= {one if one in files else str(node.module) for one in inner}
    return frozenset(
        module for module in files for name in named if f"{module}.".startswith(f"{name}.")
    )


def emit(family: str, folder: Path, *, keys_wanted: bool) -> None:
    """Write objects of kernels whose names come on stdin; say each name when it is done."""
    # Collecting garbage would take an eighth of the time; what numba holds, it holds for good.
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
    quicken()
    compile_for(family)
    kernels = {kernel.symbol: kernel for kernel in declare_all()}
    told: dict[str, str] = {}
    if keys_wanted:
        modules = {symbol: kernel.function.__module__ for symbol, kernel in kernels.items()}
        modules |= dict.fromkeys(ALWAYS, f"{__package__}.emitting")
        keys = {module: _key(family, module) for module in set(modules.values())}
        told = {name: keys[module] for name, module in modules.items()}
    print(json.dumps(told), flush=True)
    machine = machine_for(FAMILIES[family])
    for name in map(str.strip, sys.stdin):
        code = machine.emit_object(_module(name, kernels.get(name), machine))
        (folder / f"{name}.o").write_bytes(code)
        print(name, flush=True)


# What the proofs do not assume of the optimiser, in LLVM's words: see `compiling.OPTIONS`.
_FREEDOMS = re.compile(r' (?:reassoc|arcp|nnan|ninf|nsz|afn|fast) |"[a-z-]+-fp-math"="true"')


def _module(name: str, kernel: KernelSource | None, machine: Any) -> Any:
    """LLVM's module of a kernel, or of one of `ALWAYS`."""
    from kernelite.backends.cpu.kernels.tracing import library_of

    if kernel is not None:
        text = library_of(kernel).get_llvm_str()
        free = _FREEDOMS.search(text)
        if free:
            raise ValueError(f"{name} lets LLVM do more than contract: {free.group().strip()}")
        module: Any = llvm.parse_assembly(_without_exceptions(text))
        _show_only(module, kernel.symbols, machine)
    elif name == "pool":
        module = llvm.parse_assembly(f'target triple = "{machine.triple}"\n{pool_text("hidden")}')
    else:
        text = _RUNTIME.format(
            triple=machine.triple,
            table=objects.TABLE,
            entries=len(objects.OBJECTS),
            cache_line=LEAST_ALIGNED_BYTES,
        )
        module = llvm.parse_assembly(text)
    module.verify()
    return module


def _without_exceptions(text: str) -> str:
    """A module without what would make Python's exceptions: an entry looks at a status alone.

    Descriptions of exceptions would bring paths of this machine into the library, and by their
    length would move what stands behind them.
    """
    data = r"^(@\.const\.pickledata\.\S+ = [^\[]*)\[[^]]*\] (?:c\"[^\"]*\"|zeroinitializer)"
    text = re.sub(data, r"\1[1 x i8] zeroinitializer", text, flags=re.M)
    described = r"^(@\.const\.picklebuf\.\S+ = [^{]*{[^}]*}) {[^}]*}"
    text = re.sub(described, r"\1 zeroinitializer", text, flags=re.M)
    text = re.sub(r"^define [^\n]*@__excinfo_unwrap_args.*?^}\n", "", text, flags=re.S | re.M)
    return re.sub(r"@__excinfo_unwrap_args\w+", "null", text)


def _show_only(module: Any, symbols: Collection[str], machine: Any) -> None:
    """Keep what entries need, and show nothing else: names of helpers are not unique."""
    import llvmlite.binding as llvm

    for value in [*module.functions, *module.global_variables]:
        if not value.is_declaration and value.name not in symbols:
            value.linkage = "internal"
    passes: Any = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))


if __name__ == "__main__":
    emit(sys.argv[1], Path(sys.argv[2]), keys_wanted="--keys" in sys.argv)
