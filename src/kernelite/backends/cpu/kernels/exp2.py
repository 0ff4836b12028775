"""Vector instructions in 32 or 64 bits, and 2^y and log2(x) among them.

    y = n + f, n a whole number, |f| <= 1/2:    2^y = 2^n p(f)

p is the polynomial of least relative error: 7.5e-8 in single precision, 3.1e-18 in double. Rounded
coefficients and Horner's steps add to that: `EXP2_ERROR` units in all. `make prove` proves 4.2 in
single precision and 2.9 in double, from the constants below.

Vectors of 512 bits come with instructions that round down and scale, which take fewer steps:

    y = n + j/8 + f, 0 <= j < 8, 0 <= f <= 1/8:    2^y = 2^n 2^(j/8) p(f)

in doubles, with 2^(j/8) from one register and p of degree 7 (2.4e-18); in single precision
without j. A tiny negative y gives the f that rounds to the upper end: 0.35 units more.

`QUICK` are doubles whose p has degree 6, on all of [0, 1], and errs by 1.9e-9; `QUICKEST` take
single precision's. Values that need no more than that are served faster.

    x = 2^n m, sqrt(1/2) <= m < sqrt(2):    log2(x) = n + t q(t^2),    t = (m - 1) / (m + 1)

in doubles. q meets 2 atanh(t) / (t ln 2) in seven Chebyshev points of t^2 <= 0.0295, and errs by
2 u relatively, rounded coefficients included. m - 1 is exact; m + 1, the quotient, Horner's steps
and the last one add less than 5 u. n is 0 near 1, so log2(x) errs by 8 u of itself at most,
wherever x is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kernelite.backends.cpu.kernels.compiling import CONTRACT, cgutils, ir, wide_vectors

__all__ = ["DOUBLE", "PANEL_VECTORS", "QUICK", "QUICKEST", "SINGLE", "WIDE", "Code", "Precision"]

WIDE = wide_vectors()
PANEL_VECTORS = 4  # of centers in a panel
HALF_ROOT = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
ROUNDER_BITS = 0x4338000000000000  # of 1.5 2^52: whole numbers added to these are added to it
LARGEST_EXPONENTS = {4: 126.0, 8: 1022.0}  # of 2^y, by the bytes of a number
# q of `log2`, lowest order first
LOG2 = (
    *(2.885390081777927, 0.9617966939243345, 0.5770780172463286, 0.4121984020482752),
    *(0.32061638813224547, 0.2614442493522915, 0.2429160853987535),
)


@dataclass(frozen=True)
class Precision:
    """Numbers of 32 or 64 bits, and how exponentials are taken of them.

    Parameters
    ----------
    dtype : str
    size : int
        Bytes of a number.
    rounder : float
        Adding it rounds to a whole number, which stays in the lowest bits.
    mantissa : int
        Bits by which a whole number is moved to become an exponent.
    smallest : float
        Exponent of two at which values are cut off, so that none is denormal.
    rows : int
        Taken at once: their sums, a line of the panel and an entry fill a core's registers.
    polynomial : tuple of float
        p, lowest order first.
    pieces : int
        Into how many f is taken down to a piece of [0, 1]: 1 or 8. 0: it is rounded to nearest, as
        vectors of 256 bits must.
    error : float
        What powers err by relatively, besides units.
    """

    dtype: str
    size: int
    rounder: float
    mantissa: int
    smallest: float
    rows: int
    polynomial: tuple[float, ...]
    pieces: int = 0
    error: float = 0.0

    @property
    def quick(self) -> bool:
        """Whether powers have fewer digits than numbers have room for."""
        return self.error > 0.0

    @property
    def lanes(self) -> int:
        """Numbers of a vector."""
        return (64 if WIDE else 32) // self.size

    @property
    def panel(self) -> int:
        """Centers of a panel."""
        return PANEL_VECTORS * self.lanes

    @property
    def real(self) -> Any:
        """LLVM's type of a number."""
        return ir.FloatType() if self.size == 4 else ir.DoubleType()

    @property
    def vector(self) -> Any:
        """LLVM's type of a vector."""
        return ir.VectorType(self.real, self.lanes)

    @property
    def bits(self) -> Any:
        """LLVM's type of the bits of a vector."""
        return ir.VectorType(ir.IntType(8 * self.size), self.lanes)


SINGLE = Precision(
    "float32",
    4,
    1.5 * 2.0**23,
    23,
    -126.0,
    6 if WIDE else 3,
    (
        0.9999999250635878,
        0.6931530732026261,
        0.24015361702112634,
        0.0558263181162335,
        0.008989340023581907,
        0.001877576700019989,
    )
    if WIDE
    else (
        1.0000000716546416,
        0.69314696706526493,
        0.24022119723969178,
        0.055507132728753912,
        0.0096755413310213911,
        0.0013276472167819943,
    ),
    pieces=1 if WIDE else 0,
)
DOUBLE = Precision(
    "float64",
    8,
    1.5 * 2.0**52,
    52,
    -1022.0,
    3,
    (
        1.0,
        0.6931471805599478,
        0.2402265069586807,
        0.055504108691834114,
        0.009618128255804855,
        0.0013333703784106918,
        0.00015389766053260003,
        1.592719961608127e-05,
    )
    if WIDE
    else (
        1.0,
        0.69314718055994533,
        0.24022650695910156,
        0.055504108664819921,
        0.0096181291075883351,
        0.0013333558146789950,
        0.00015403530462514613,
        0.0000152527334899608046,
        1.3215433089594629e-6,
        1.0178198033328528e-7,
        7.0741056262456594e-9,
        4.4352809446103362e-10,
    ),
    pieces=8 if WIDE else 0,
)
QUICK = replace(
    DOUBLE,
    rows=4 if WIDE else 3,
    polynomial=(
        1.0000000018557977,
        0.6931469838404387,
        0.24022983627589423,
        0.05548334197771016,
        0.009678841007043672,
        0.0012439687747148747,
        0.00021702255680520308,
    )
    if WIDE
    else (
        1.0000000005541663,
        0.6931472057372526,
        0.24022646890639573,
        0.055503287769976636,
        0.009618488956522791,
        0.001339993120947414,
        0.00015345812158740183,
    ),
    pieces=1 if WIDE else 0,
    error=2e-9,
)
QUICKEST = replace(QUICK, polynomial=SINGLE.polynomial, error=8e-8)


@dataclass(frozen=True)
class Code:
    """Writes vector instructions of one precision.

    Parameters
    ----------
    builder : llvmlite's builder
    precision : Precision
    """

    builder: Any
    precision: Precision

    def all_lanes(self, value: float) -> Any:
        """A constant in every lane."""
        lane = ir.Constant(self.precision.real, value)
        return ir.Constant(self.precision.vector, [lane] * self.precision.lanes)

    def all_bits(self, value: int) -> Any:
        """A whole number in every lane."""
        lane = ir.IntType(8 * self.precision.size)(value)
        return ir.Constant(self.precision.bits, [lane] * self.precision.lanes)

    def load(self, address: Any, vectors: int = 0) -> Any:
        """The vector so many vectors after an address."""
        return self.builder.load(self._place(address, vectors), align=self.precision.size)

    def store(self, value: Any, address: Any, vectors: int = 0) -> None:
        """Put a vector so many vectors after an address."""
        self.builder.store(value, self._place(address, vectors), align=self.precision.size)

    def _place(self, address: Any, vectors: int) -> Any:
        far = address.type(self.precision.size * self.precision.lanes * vectors)
        pointer = self.precision.vector.as_pointer()
        return self.builder.inttoptr(self.builder.add(address, far), pointer)

    def vectors(self, address: Any, count: int) -> list[Any]:
        """So many vectors from an address on."""
        return [self.load(address, v) for v in range(count)]

    def spread(self, address: Any) -> Any:
        """The number at an address in every lane."""
        pointer = self.builder.inttoptr(address, self.precision.real.as_pointer())
        return self.everywhere(self.builder.load(pointer, align=self.precision.size))

    def everywhere(self, value: Any) -> Any:
        """A number in every lane."""
        i32, lanes = ir.IntType(32), self.precision.lanes
        nothing = ir.Constant(self.precision.vector, ir.Undefined)
        first = self.builder.insert_element(nothing, value, i32(0))
        order = ir.Constant(ir.VectorType(i32, lanes), [0] * lanes)
        return self.builder.shuffle_vector(first, nothing, order)

    def variable(self, start: Any = None) -> Any:
        """A vector to add to, zeros unless it starts otherwise; it is kept in a register."""
        made = cgutils.alloca_once(self.builder, self.precision.vector)
        start = self.all_lanes(0.0) if start is None else start
        self.builder.store(start, made)  # again whenever a loop comes here
        return made

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        """a b + c, in one instruction where there is one."""
        product = self.builder.fmul(a, b, flags=CONTRACT)
        return self.builder.fadd(product, c, flags=CONTRACT)

    def add_product(self, total: Any, a: Any, b: Any) -> None:
        """Add a b to a variable."""
        self.builder.store(self.multiply_add(a, b, self.builder.load(total)), total)

    def exp2(self, y: Any) -> Any:
        """2^y; below the smallest exponent, and of NaN, 2^smallest, in double precision 0.

        Doubles must vanish as scikit-learn's do: some heads divide by their sums. Quick ones may be
        denormal before, and NaN stays what it is: no bound holds it.
        """
        builder, precision = self.builder, self.precision
        if precision.quick and precision.pieces:
            return self.exp2_inside(y)
        least = self.all_lanes(precision.smallest)
        inside = builder.fcmp_ordered(">", y, least)
        found = self.exp2_inside(builder.select(inside, y, least))
        return found if precision.size == 4 else builder.select(inside, found, self.all_lanes(0.0))

    def exp2_inside(self, y: Any) -> Any:
        """2^y for y that are not below the smallest exponent; of others, anything.

        No flag may let the compiler reorder: it would fold (y + c) - c.
        """
        if self.precision.pieces:
            return self._exp2_down(y)
        builder, precision = self.builder, self.precision
        # Exponents that lost all digits may come out as large as any: their bits must not wrap.
        y = self.at_most(y, LARGEST_EXPONENTS[precision.size])
        rounder = self.all_lanes(precision.rounder)
        shifted = builder.fadd(y, rounder)
        value = self._polynomial(builder.fsub(y, builder.fsub(shifted, rounder)))
        up = self.all_bits(precision.mantissa)
        power = builder.shl(builder.bitcast(shifted, precision.bits), up)
        whole = builder.add(builder.bitcast(value, precision.bits), power)
        return builder.bitcast(whole, precision.vector)

    def _exp2_down(self, y: Any) -> Any:
        """As `exp2_inside`; below the smallest exponent, what is denormal, then 0."""
        builder, precision, pieces = self.builder, self.precision, self.precision.pieces
        vector, bits = precision.vector, precision.bits
        i32, kind = ir.IntType(32), "ps" if precision.size == 4 else "pd"
        # What lanes get that are left out; none is. As the processor rounds.
        others = self.all_lanes(0.0), ir.IntType(precision.lanes)(-1), i32(4)
        places = pieces.bit_length() - 1
        down = i32(places << 4 | 0b1001)  # to so many binary places, towards minus infinity
        f = self._call(f"mask.reduce.{kind}", vector, y, down, *others)
        value = self._polynomial(f)
        if pieces == 1:
            return self._call(f"mask.scalef.{kind}", vector, value, y, *others)
        rounder = self.all_lanes(precision.rounder / pieces)
        shifted = self._call(f"add.{kind}", vector, y, rounder, i32(0b1001))
        table = ir.Constant(vector, [precision.real(2.0 ** (j / pieces)) for j in range(pieces)])
        power = self._call("permvar.df", vector, table, builder.bitcast(shifted, bits))
        power = self._call(f"mask.scalef.{kind}", vector, power, y, *others)
        return builder.fmul(power, value)

    def _polynomial(self, f: Any) -> Any:
        """p(f), by Horner's steps."""
        value = self.all_lanes(self.precision.polynomial[-1])
        for coefficient in reversed(self.precision.polynomial[:-1]):
            value = self.multiply_add(value, f, self.all_lanes(coefficient))
        return value

    def _call(self, name: str, kind: Any, *arguments: Any) -> Any:
        """An instruction of AVX-512, by LLVM's name."""
        signature = ir.FunctionType(kind, [argument.type for argument in arguments])
        module, name = self.builder.module, f"llvm.x86.avx512.{name}.512"
        found = cgutils.get_or_insert_function(module, signature, name)
        return self.builder.call(found, arguments)

    def log2(self, x: Any) -> Any:
        """log2(x) of doubles that are positive and normal; of others some number below 1100."""
        builder, bits = self.builder, self.precision.bits
        whole = builder.bitcast(x, bits)
        k = builder.ashr(builder.sub(whole, self.all_bits(HALF_ROOT)), self.all_bits(52))
        m = builder.sub(whole, builder.shl(k, self.all_bits(52)))
        m = builder.bitcast(m, self.precision.vector)
        moved = builder.add(k, self.all_bits(ROUNDER_BITS))
        rounder, one = self.all_lanes(self.precision.rounder), self.all_lanes(1.0)
        n = builder.fsub(builder.bitcast(moved, self.precision.vector), rounder)
        t = builder.fdiv(builder.fsub(m, one), builder.fadd(m, one))
        square = builder.fmul(t, t)
        value = self.all_lanes(LOG2[-1])
        for coefficient in reversed(LOG2[:-1]):
            value = self.multiply_add(value, square, self.all_lanes(coefficient))
        return self.multiply_add(t, value, n)

    def sqrt(self, x: Any) -> Any:
        """The root, correctly rounded."""
        kind = self.precision.vector
        name = f"llvm.sqrt.v{self.precision.lanes}f{8 * self.precision.size}"
        signature = ir.FunctionType(kind, [kind])
        module: Any = self.builder.module
        root = cgutils.get_or_insert_function(module, signature, name)
        return self.builder.call(root, [x])

    def at_most(self, x: Any, limit: float) -> Any:
        """The smaller of the two; the limit where x is not a number."""
        most = self.all_lanes(limit)
        return self.builder.select(self.builder.fcmp_ordered("<", x, most), x, most)

    def at_least(self, x: Any, limit: float) -> Any:
        """The larger of the two; the limit where x is not a number."""
        least = self.all_lanes(limit)
        return self.builder.select(self.builder.fcmp_ordered(">", x, least), x, least)

    def magnitude(self, value: Any) -> Any:
        """|value| in each lane."""
        masks = self.all_bits((1 << (8 * self.precision.size - 1)) - 1)
        kept = self.builder.and_(self.builder.bitcast(value, self.precision.bits), masks)
        return self.builder.bitcast(kept, self.precision.vector)

    def total(self, value: Any) -> Any:
        """The sum of the lanes by halves, as a double: log2(lanes) roundings."""
        builder, i32, lanes = self.builder, ir.IntType(32), self.precision.lanes
        while lanes > 1:
            lanes //= 2
            nothing = ir.Constant(value.type, ir.Undefined)
            halves = [
                ir.Constant(ir.VectorType(i32, lanes), list(range(start, start + lanes)))
                for start in (0, lanes)
            ]
            low, high = (builder.shuffle_vector(value, nothing, half) for half in halves)
            value = builder.fadd(low, high)
        whole = builder.extract_element(value, i32(0))
        return builder.fpext(whole, ir.DoubleType()) if self.precision.size == 4 else whole

    def store_total(self, value: Any, address: Any) -> None:
        """Put the sum of the lanes at an address, as a double."""
        pointer = self.builder.inttoptr(address, ir.DoubleType().as_pointer())
        self.builder.store(self.total(value), pointer, align=8)
