"""Entries of kernels in LLVM's own instructions: what Python calls, and what threads share.

Python calls an entry as one of its functions. It looks at the objects that it is given, makes views
and numbers of them, and calls the kernel; a second one has the threads of a pool take rows.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir
import numpy as np
from numba.core import cgutils, types
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

from kernelite.backends.cpu.kernels.compiling import ArrayType, KernelSource
from kernelite.backends.cpu.kernels.objects import HEADER_BYTES, OBJECTS, SHARE, TABLE

__all__ = ["Entry", "InsideEntry", "SharedEntry", "numba_type"]

_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400  # flags of NumPy's arrays
# Fields of what threads share (`SharedEntry`): the next row has a cache line of its own.
_NEXT, _FAILED, _ROWS, _STEP, _ARGUMENTS = 0, 8, 9, 10, 11


def numba_type(kind: ArrayType | str) -> Any:
    """numba's type of an argument."""
    if isinstance(kind, ArrayType):
        number = from_dtype(np.dtype(kind.dtype))
        return types.Array(number, kind.n_dims, "C", readonly=not kind.writable)
    return getattr(types, kind)


class Entry:
    """The function of Python's that calls a kernel: object *entry(self, object **given, n).

    It looks at the objects, makes views and numbers of them, and calls the kernel without the
    interpreter's lock. If one is of another kind, it has `self` called with all of them.
    """

    which = 0  # of the kernel's symbols
    before = 0  # whole numbers that stand before the kernel's arguments

    def __init__(self, compiled: Any, module: Any, kernel: KernelSource) -> None:
        self.compiled, self.kernel = compiled, kernel
        self.context, self.i64 = compiled.target_context, ir.IntType(64)
        self.pointer = ir.IntType(8).as_pointer()
        symbol = kernel.symbols[self.which]
        self.function = ir.Function(module, self.signature(), symbol)
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.otherwise = self.function.append_basic_block("otherwise")
        table = ir.ArrayType(self.i64, len(OBJECTS))
        known = module.globals.get(TABLE)
        self.table = ir.GlobalVariable(module, table, TABLE) if known is None else known

    def signature(self) -> Any:
        """What it is given, and returns."""
        return ir.FunctionType(self.pointer, [self.pointer, self.pointer.as_pointer(), self.i64])

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
        state = self.call("PyEval_SaveThread", self.pointer)
        failed, found = self.called(self.builder, values)
        self.call("PyEval_RestoreThread", ir.VoidType(), state)
        return failed, self.whole(found)

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

    def struct(self, builder: Any, i: int, value: Any) -> Any:
        """numba's view of argument i, to be looked into."""
        kind: Any = self.kernel.arguments[i]
        return make_array(numba_type(kind))(self.context, builder, value=value)

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
    """As `Entry`, given how many helpers there may be, how many of these to wake if they sleep, and
    how many rows a thread takes at a time.

    All that the threads need is in one structure: the next row, how many rows there are and are
    taken at a time, whether one failed, then the kernel's arguments. A number of helpers below 0,
    -1 for none, has the caller keep the interpreter's lock, since to give it up and to get it back
    takes longer than little work does while other threads want it.
    """

    which, before = 1, 3

    def run(self, values: list[Any]) -> tuple[Any, Any]:
        """As `Entry.run`; such kernels return nothing."""
        builder, i64 = self.builder, self.i64
        helpers, woken, step, *values = values
        failed, state = builder.alloca(ir.IntType(1)), builder.alloca(self.pointer)
        with builder.if_else(builder.icmp_signed("==", helpers, i64(-1))) as (alone, together):
            with alone:
                builder.store(self.called(builder, values)[0], failed)
            with together:
                unlocked = builder.icmp_signed(">=", helpers, i64(0))
                with builder.if_then(unlocked):
                    builder.store(self.call("PyEval_SaveThread", self.pointer), state)
                count = builder.select(unlocked, helpers, builder.sub(i64(-1), helpers))
                builder.store(self.shared(count, woken, step, values), failed)
                with builder.if_then(unlocked):
                    self.call("PyEval_RestoreThread", ir.VoidType(), builder.load(state))
        return builder.load(failed), i64(0)

    def shared(self, helpers: Any, woken: Any, step: Any, values: list[Any]) -> Any:
        """Whether the kernel failed in one of the threads."""
        builder, i64 = self.builder, self.i64
        first = self.kernel.by_row[0]
        rows = builder.extract_value(self.struct(builder, first, values[first]).shape, 0)
        first_row, none_failed = i64(0), i64(0)
        fields = [first_row, *[i64(0)] * (_FAILED - 1), none_failed, rows, step, *values]
        given = builder.alloca(ir.LiteralStructType([one.type for one in fields]))
        for i, one in enumerate(fields):
            builder.store(one, builder.gep(given, [ir.IntType(32)(0), ir.IntType(32)(i)]))
        part = self.part(given.type)
        kind = ir.FunctionType(ir.VoidType(), [self.pointer, self.pointer, i64, i64])
        share = cgutils.get_or_insert_function(self.function.module, kind, SHARE)
        addresses = [builder.bitcast(one, self.pointer) for one in (part, given)]
        builder.call(share, [*addresses, helpers, woken])
        failed = builder.load(builder.gep(given, [ir.IntType(32)(0), ir.IntType(32)(_FAILED)]))
        return builder.icmp_unsigned("!=", failed, i64(0))

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


class InsideEntry(Entry):
    """What another kernel calls for rows of its own: i64 entry(object **given, void **rows, n).

    `given` are the arguments as Python's objects, which were looked at before and are kept: arrays
    and floats. The first few that are declared as `inside` are taken from the addresses `rows`
    instead, with n rows each. It returns whether the kernel failed, and asks nothing of Python.
    """

    which = 2

    def signature(self) -> Any:
        """As said above."""
        addresses = self.pointer.as_pointer()
        return ir.FunctionType(self.i64, [addresses, addresses, self.i64])

    def write(self) -> None:
        """All of it."""
        builder, i64 = self.builder, self.i64
        given, places, count = self.function.args
        values = []
        for i, kind in enumerate(self.kernel.arguments):
            one = builder.load(builder.gep(given, [i64(i)]))
            if not isinstance(kind, ArrayType):
                assert kind == "float64", f"{self.kernel.symbol} takes a {kind} inside another"
                values.append(self.field(one, HEADER_BYTES, ir.DoubleType()))
                continue
            view = self.struct(builder, i, self.view(one, kind))
            if i in self.kernel.inside:
                place = builder.gep(places, [i64(self.kernel.inside.index(i))])
                view.data = builder.bitcast(builder.load(place), view.data.type)
                view.shape = builder.insert_value(view.shape, count, 0)
            values.append(view._getvalue())
        failed, _found = self.called(builder, values)
        builder.ret(builder.zext(failed, i64))
        builder.position_at_end(self.otherwise)
        builder.unreachable()
