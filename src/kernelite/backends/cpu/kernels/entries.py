"""Entries of kernels in LLVM's own instructions: what Python calls, and what threads share.

Python calls an entry as one of its functions. It looks at the objects that it is given, makes views
and numbers of them, and calls the kernel; a second one has the threads of a pool take rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.ir as ir
import numpy as np
from numba.core import cgutils, types
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

from kernelite.backends.cpu.kernels.compiling import ArrayType, KernelSource
from kernelite.backends.cpu.kernels.objects import (
    HEADER_BYTES,
    OBJECTS,
    SERVER,
    SHARE,
    TABLE,
    WORDS,
)

__all__ = ["Entry", "SharedEntry", "numba_type", "pool_text"]

_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400  # flags of NumPy's arrays
_NEXT, _ROWS, _STEP, _FAILED, _ARGUMENTS = range(5)  # fields of what threads share: `SharedEntry`


def numba_type(kind: ArrayType | str) -> Any:
    """numba's type of an argument."""
    if isinstance(kind, ArrayType):
        number = from_dtype(np.dtype(kind.dtype))
        return types.Array(number, kind.n_dims, "C", readonly=not kind.writable)
    return getattr(types, kind)


# The threads of `pool` and who calls them. A helper that takes one of the tickets runs the
# function. When the caller has done its part, it takes back the tickets that are left, and waits
# for as many helpers as took one. Semaphores may be posted more often than is of use: then a helper
# looks in vain. A signal may end a wait early.
_POOL_TEXT = """
@{table} = external global [{entries} x i64]

define void @{server}() {{
start:
{known}
  br label %sleep
sleep:
  %woken = call i32 %wait(ptr %work)
  br label %look
look:
  %left = load atomic i64, ptr %tickets seq_cst, align 8
  %any = icmp sgt i64 %left, 0
  br i1 %any, label %take, label %sleep
take:
  %fewer = sub i64 %left, 1
  %tried = cmpxchg ptr %tickets, i64 %left, i64 %fewer seq_cst seq_cst
  %taken = extractvalue {{ i64, i1 }} %tried, 1
  br i1 %taken, label %run, label %look
run:
  %called = load ptr, ptr %function
  %argument = load ptr, ptr %given
  call void %called(ptr %argument)
  %told = call i32 %post(ptr %done)
  br label %look
}}

define {linkage} void @{share}(ptr %called, ptr %argument, i64 %helpers) {{
start:
{known}
  %tried = cmpxchg ptr %busy, i64 0, i64 1 seq_cst seq_cst
  %free = extractvalue {{ i64, i1 }} %tried, 1
  br i1 %free, label %together, label %alone
alone:
  call void %called(ptr %argument)
  ret void
together:
  store ptr %called, ptr %function
  store ptr %argument, ptr %given
  store atomic i64 %helpers, ptr %tickets seq_cst, align 8
  br label %more
more:
  %i = phi i64 [ 0, %together ], [ %next, %wake ]
  %asked = icmp sge i64 %i, %helpers
  br i1 %asked, label %work_on, label %wake
wake:
  %told = call i32 %post(ptr %work)
  %next = add i64 %i, 1
  br label %more
work_on:
  call void %called(ptr %argument)
  %left = atomicrmw xchg ptr %tickets, i64 0 seq_cst
  %begun = sub i64 %helpers, %left
  br label %expect
expect:
  %missing = phi i64 [ %begun, %work_on ], [ %fewer, %ended ], [ %missing, %listen ]
  %all = icmp sle i64 %missing, 0
  br i1 %all, label %free_again, label %listen
listen:
  %failed = call i32 %wait(ptr %done)
  %good = icmp eq i32 %failed, 0
  br i1 %good, label %ended, label %expect
ended:
  %fewer = sub i64 %missing, 1
  br label %expect
free_again:
  store atomic i64 0, ptr %busy seq_cst, align 8
  ret void
}}
"""


def pool_text(linkage: str = "") -> str:
    """LLVM's text of the pool."""
    table = f"[{len(OBJECTS)} x i64], ptr @{TABLE}, i64 0, i64"
    known = [
        f"  %{name} = load ptr, ptr getelementptr ({table} {OBJECTS.index(of)})"
        for name, of in (("pool", "pool"), ("wait", "sem_wait"), ("post", "sem_post"))
    ]
    known += [f"  %{name} = getelementptr i64, ptr %pool, i64 {at}" for name, at in WORDS.items()]
    names = {"table": TABLE, "entries": len(OBJECTS), "server": SERVER, "share": SHARE}
    return _POOL_TEXT.format(linkage=linkage, known="\n".join(known), **names)


class Entry:
    """The function of Python's that calls a kernel: object *entry(self, object **given, n).

    It looks at the objects, makes views and numbers of them, and calls the kernel without the
    interpreter's lock. If one is of another kind, it has `self` called with all of them.
    """

    before = 0  # whole numbers that stand before the kernel's arguments

    def __init__(self, compiled: Any, module: Any, kernel: KernelSource) -> None:
        self.compiled, self.kernel = compiled, kernel
        symbol = kernel.symbols[1 if self.before else 0]
        self.context, self.i64 = compiled.target_context, ir.IntType(64)
        self.pointer = ir.IntType(8).as_pointer()
        passed = [self.pointer, self.pointer.as_pointer(), self.i64]
        self.function = ir.Function(module, ir.FunctionType(self.pointer, passed), symbol)
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.otherwise = self.function.append_basic_block("otherwise")
        table = ir.ArrayType(self.i64, len(OBJECTS))
        known = module.globals.get(TABLE)
        self.table = ir.GlobalVariable(module, table, TABLE) if known is None else known

    def write(self) -> None:
        """All of it."""
        builder, i64 = self.builder, self.i64
        owner, given, count = self.function.args
        kinds = [*["int64"] * self.before, *self.kernel.arguments]
        self.go_on_if(builder.icmp_signed("==", count, i64(len(kinds))))
        values = []
        for i, kind in enumerate(kinds):
            one = builder.load(builder.gep(given, [i64(i)]))
            value = self.array if isinstance(kind, ArrayType) else self.number
            values.append(value(one, kind))
        failed, found = self.run(values)
        with cgutils.if_unlikely(builder, failed):
            builder.ret(self.call("PyErr_NoMemory", self.pointer))
        builder.ret(self.call("PyLong_FromLongLong", self.pointer, found))
        builder.position_at_end(self.otherwise)
        nothing = ir.Constant(self.pointer, None)
        builder.ret(self.call("PyObject_Vectorcall", self.pointer, owner, given, count, nothing))

    def run(self, values: list[Any]) -> tuple[Any, Any]:
        """Whether the kernel failed, and the whole number that it returns."""
        with self.unlocked():
            failed, found = self.called(self.builder, values)
        return failed, self.whole(found)

    @contextmanager
    def unlocked(self) -> Iterator[None]:
        """What is written inside runs without the interpreter's lock."""
        state = self.call("PyEval_SaveThread", self.pointer)
        yield
        self.call("PyEval_RestoreThread", ir.VoidType(), state)

    def called(self, builder: Any, values: list[Any]) -> tuple[Any, Any]:
        """Whether the kernel failed, and what it returns."""
        described, convention = self.compiled.fndesc, self.context.call_conv
        kernel = self.context.declare_function(self.function.module, described)
        types_ = described.restype, described.argtypes
        status, found = convention.call_function(builder, kernel, *types_, values)
        return status.is_error, found

    def known(self, name: str) -> Any:
        """The address of an object or a function in the process that the code runs in."""
        place = self.builder.gep(self.table, [self.i64(0), self.i64(OBJECTS.index(name))])
        return self.builder.load(place)

    def call(self, name: str, result: Any, *arguments: Any) -> Any:
        """A function of Python's."""
        kind = ir.FunctionType(result, [one.type for one in arguments])
        return self.builder.call(
            self.builder.inttoptr(self.known(name), kind.as_pointer()), arguments
        )

    def go_on_if(self, good: Any) -> None:
        """Else Python deals with the arguments."""
        following = self.function.append_basic_block("good")
        branch = self.builder.cbranch(good, following, self.otherwise)
        branch.set_weights([99, 1])
        self.builder.position_at_end(following)

    def field(self, one: Any, at: int, kind: Any) -> Any:
        """What is so many bytes from an object's beginning."""
        place = self.builder.gep(one, [self.i64(at)])
        return self.builder.load(self.builder.bitcast(place, kind.as_pointer()))

    def is_a(self, one: Any, name: str) -> Any:
        """Whether an object is of a type, and of none that is derived from it."""
        kind = self.field(one, HEADER_BYTES - 8, self.i64)
        return self.builder.icmp_unsigned("==", kind, self.known(name))

    def number(self, one: Any, kind: Any) -> Any:
        """The value of a float, a truth value or a whole number."""
        builder = self.builder
        if kind.startswith("float"):
            self.go_on_if(builder.or_(self.is_a(one, "float"), self.is_a(one, "float of NumPy")))
            value = self.field(one, HEADER_BYTES, ir.DoubleType())
            return builder.fptrunc(value, ir.FloatType()) if kind == "float32" else value
        address = builder.ptrtoint(one, self.i64)
        if kind == "boolean":
            yes = builder.icmp_unsigned("==", address, self.known("True"))
            no = builder.icmp_unsigned("==", address, self.known("False"))
            self.go_on_if(builder.or_(yes, no))
            return yes
        self.go_on_if(self.is_a(one, "int"))
        value = self.call("PyLong_AsLongLong", self.i64, one)
        with cgutils.if_unlikely(builder, builder.icmp_signed("==", value, self.i64(-1))):
            error = self.call("PyErr_Occurred", self.i64)
            with cgutils.if_unlikely(builder, builder.icmp_unsigned("!=", error, self.i64(0))):
                builder.ret(ir.Constant(self.pointer, None))
        return value

    def array(self, one: Any, kind: Any) -> Any:
        """numba's view of an array of the declared kind."""
        builder, i32 = self.builder, ir.IntType(32)
        self.go_on_if(self.is_a(one, "array"))
        flags = i32(_CONTIGUOUS | _ALIGNED | (_WRITEABLE if kind.writable else 0))
        held = builder.and_(self.field(one, HEADER_BYTES + 48, i32), flags)
        good = builder.icmp_unsigned("==", held, flags)
        n_dims = self.field(one, HEADER_BYTES + 8, i32)
        good = builder.and_(good, builder.icmp_unsigned("==", n_dims, i32(kind.n_dims)))
        dtype = self.field(one, HEADER_BYTES + 40, self.i64)
        same = builder.icmp_unsigned("==", dtype, self.known(kind.dtype))
        self.go_on_if(builder.and_(good, same))
        return self.view(one, kind)

    def view(self, one: Any, kind: ArrayType) -> Any:
        """numba's view of an array."""
        builder, seen = self.builder, numba_type(kind)
        data_type = self.context.get_data_type(seen.dtype)
        size = self.context.get_abi_sizeof(data_type)
        dimensions = self.field(one, HEADER_BYTES + 16, self.i64.as_pointer())
        shape = [builder.load(builder.gep(dimensions, [self.i64(n)])) for n in range(kind.n_dims)]
        strides: list[Any] = []
        step = self.i64(size)
        for length in reversed(shape):
            strides.insert(0, step)
            step = builder.mul(step, length)
        view = make_array(seen)(self.context, builder)
        data = self.field(one, HEADER_BYTES, data_type.as_pointer())
        populate_array(view, data, shape, strides, size, None)
        return view._getvalue()

    def whole(self, found: Any) -> Any:
        """What a kernel returns as a whole number; 0 if it returns nothing."""
        result, i64 = self.compiled.fndesc.restype, self.i64
        if isinstance(result, types.Boolean):
            return self.builder.zext(found, i64)
        if isinstance(result, types.Integer):
            widen = self.builder.sext if result.signed else self.builder.zext
            return widen(found, i64) if result.bitwidth < 64 else found
        assert isinstance(result, types.NoneType), f"{self.kernel.symbol} returns {result}"
        return i64(0)


class SharedEntry(Entry):
    """As `Entry`, given the number of helpers and of rows that a thread takes at a time.

    All that the threads need is in one structure: the next row, how many rows there are and are
    taken at a time, whether one failed, then the kernel's arguments. A number of helpers below 0
    has the caller work alone and keep the interpreter's lock, since to give it up and to get it
    back takes longer than little work does while other threads want it.
    """

    before = 2

    def run(self, values: list[Any]) -> tuple[Any, Any]:
        """As `Entry.run`; such kernels return nothing."""
        builder, i64 = self.builder, self.i64
        helpers, step, *values = values
        failed = builder.alloca(ir.IntType(1))
        with builder.if_else(builder.icmp_signed("<", helpers, i64(0))) as (locked, unlocked):
            with locked:
                builder.store(self.called(builder, values)[0], failed)
            with unlocked, self.unlocked():
                builder.store(self.shared(helpers, step, values), failed)
        return builder.load(failed), i64(0)

    def shared(self, helpers: Any, step: Any, values: list[Any]) -> Any:
        """Whether the kernel failed in one of the threads."""
        builder, i64 = self.builder, self.i64
        first = self.kernel.by_row[0]
        rows = builder.extract_value(self.struct(builder, first, values[first]).shape, 0)
        first_row, none_failed = i64(0), i64(0)
        fields = [first_row, rows, step, none_failed, *values]
        given = builder.alloca(ir.LiteralStructType([one.type for one in fields]))
        for i, one in enumerate(fields):
            builder.store(one, builder.gep(given, [ir.IntType(32)(0), ir.IntType(32)(i)]))
        part = self.part(given.type)
        kind = ir.FunctionType(ir.VoidType(), [self.pointer, self.pointer, i64])
        share = cgutils.get_or_insert_function(self.function.module, kind, SHARE)
        addresses = [builder.bitcast(one, self.pointer) for one in (part, given)]
        builder.call(share, [*addresses, helpers])
        failed = builder.load(builder.gep(given, [ir.IntType(32)(0), ir.IntType(32)(_FAILED)]))
        return builder.icmp_unsigned("!=", failed, i64(0))

    def struct(self, builder: Any, i: int, value: Any) -> Any:
        """numba's view of argument i, to be looked into."""
        kind: Any = self.kernel.arguments[i]
        return make_array(numba_type(kind))(self.context, builder, value=value)

    def part(self, kind: Any) -> Any:
        """The function that a thread runs: it takes rows as long as there are some."""
        name = f"{self.function.name}_part"
        taken = ir.FunctionType(ir.VoidType(), [self.pointer])
        function = ir.Function(self.function.module, taken, name)
        builder = ir.IRBuilder(function.append_basic_block("start"))
        i64, i32 = self.i64, ir.IntType(32)
        given = builder.bitcast(function.args[0], kind)
        places = [builder.gep(given, [i32(0), i32(i)]) for i in range(len(kind.pointee.elements))]
        rows, step = builder.load(places[_ROWS]), builder.load(places[_STEP])
        values = [builder.load(place) for place in places[_ARGUMENTS:]]
        again = function.append_basic_block("again")
        some, none = function.append_basic_block("some"), function.append_basic_block("none")
        builder.branch(again)
        builder.position_at_end(again)
        first = builder.atomic_rmw("add", places[_NEXT], step, "monotonic")
        builder.cbranch(builder.icmp_signed("<", first, rows), some, none)
        builder.position_at_end(some)
        left = builder.sub(rows, first)
        count = builder.select(builder.icmp_signed("<", left, step), left, step)
        for i in self.kernel.by_row:
            values[i] = self.rows_of(builder, i, values[i], (rows, first, count))
        failed, _found = self.called(builder, values)
        with cgutils.if_unlikely(builder, failed):
            builder.store(i64(1), places[_FAILED])
        builder.branch(again)
        builder.position_at_end(none)
        builder.ret_void()
        return function

    def rows_of(self, builder: Any, i: int, value: Any, taken: tuple[Any, Any, Any]) -> Any:
        """Some rows of an argument; all of one that has another length, because it is not used."""
        rows, first, count = taken
        view = self.struct(builder, i, value)
        shape, strides = view.shape, view.strides
        length = builder.extract_value(shape, 0)
        mine = builder.icmp_signed("==", length, rows)
        far = builder.mul(builder.extract_value(strides, 0), first)
        far = builder.select(mine, far, self.i64(0))
        there = builder.add(builder.ptrtoint(view.data, self.i64), far)
        view.data = builder.inttoptr(there, view.data.type)
        view.shape = builder.insert_value(shape, builder.select(mine, count, length), 0)
        return view._getvalue()
