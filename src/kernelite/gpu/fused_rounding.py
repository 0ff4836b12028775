"""What the fused sums may err by: half-precision slices on tensor cores, inside a proven bound.

    f(z) = sum_i A_i 2^(e_i) + b,    e_i = y_i.u - g |s_i|^2 - g |u|^2,    g = gamma log2(e)

with s_i = x_i - p, u = z - p and y_i = 2 g s_i, in doubles.

*Slices.* The entries of a row u are scaled by a power of two until the largest lies in
[2^(b-1), 2^b), and cut into three numbers of half precision: u1, a whole number, |u1| <= 2^b;
u2, a multiple of 2^-b, |u2| <= 1/2; u3, what is left, |u3| <= 2^-(b+1), rounded to 11 bits. So
|u - u1 - u2 - u3| <= 2^-(b+12) + 2^-25. The centers' y likewise, with one scale for all. In these
units a product over L features is replaced by three accumulators

    a1 = u1.y1,    a2 = u1.y2 + u2.y1,    a3 = u2.y2 + u1.y3 + u3.y1

with L 2^(2b) <= 2^24. (tf32x3 has the same 11 bits per number, half the rate of half precision, and
no exact sums, so that its bound is several times larger at the same cost.)

*Tensor cores.* ASSUMED, and attacked by `benchmarks gpu`: products of halves are exact; a sum of
integer multiples of a unit, none of whose partial sums exceeds 2^24 units, is exact; and adding l
products to an accumulator in any order, truncating instead of rounding, errs by at most
l 2^-22 times the sum of their absolute values. That holds for any unit that aligns addends to the
largest and keeps 24 bits or more, whatever it does below; Volta to Hopper keep more. Hence a1 and
a2 are exact, and with |a3| <= 1.26 L, a3 errs by 3 L 2^-22 1.26 L. What a1 + a2 + a3 leaves
out is u2.y3 + u3.y2 + u3.y3 <= L 2^-(b+1) (1 + 2^-b), and the rests, 2 L 2^b (2^-(b+12) + 2^-25).

*The exponent.* With P = 2 g R |u| >= the sum of all |products|, R = max |s_i|: adding the
accumulators, scaling back and adding -g |s|^2 and -g |u|^2, both rounded, in single precision costs
2^-24 (4 P + 3 g R^2 + 2 g |u|^2). So

    |e^ - e| <= eps = unit slices(L, b) + 2^-24 1.01 (4 P + 3 g R^2 + 2 g |u|^2)

where `unit` is the product of both scales: a power of two, known per row.

*exp2.* ASSUMED to err by 2^-22 relatively where its value is normal, and to give at most 2^-125
below, as PTX documents ex2.approx; `benchmarks gpu` tries all its inputs. So K^ = K (1 + t) with
|t| <= 0.7 eps + 2^-22 for eps <= `MOST_ERROR`.

*Sums.* With one output: coefficients and products round by 2^-24 each, CENTERS / 8 of them are
summed in single precision, in any order; all else is added in doubles.
With several, K <= 1 and A are cut into slices in the same way (b = 9, 64 centers a time) and summed
on the tensor cores; what that leaves out is at most 2^-26 of the largest coefficient for each
center. Of votes, two slices are taken, the second rounded to 11 bits, so |rest| <= 2^-12: that
leaves out 2 * 2^9 * 2^-12 = 0.25 units squared for each center, and three products in one
accumulator err by 3 * 64 * 2^-22 * 64 * 2^9 in a tile, together less than 0.3 * 2^-17 of the
largest coefficient. Tiles are added in single precision. sum_i |A_i| K_i is summed beside, with
several outputs by its bound sum_i (max_j |A_ij|) K_i, one number per group.

*Doubles.* All that remains (s, u, |u|^2, the last sums) is in the bound of the exact engine,
`engines.exact_rounding`, which is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernelite.cpu.exact_rounding import ExactRounding
from kernelite.series.rounding import SAFETY

__all__ = ["CENTERS", "CHUNK", "MOST_ERROR", "FusedRounding", "slice_bits"]

TENSOR = 2.0**-22  # per product that a tensor core adds to an accumulator
EXP2 = 2.0**-22
SINGLE = 2.0**-24
CENTERS, CHUNK = 128, 64  # centers and features of a tile, at most
MOST_ERROR = 0.01  # of an exponent; beyond, nothing is known
TINY = 2.0**-124  # what a kernel value or a product may lose by underflow
LOG2E = math.log2(math.e)
LONGEST = 4096  # features: so that slices have six bits
MOST_EXPONENT = 4e3  # g R^2, so that constants and scales stay well inside single precision
LEFT_OUT = {True: 2.0**-26, False: 0.3 * 2.0**-17}  # of the largest coefficient, per center,
# in sums of several outputs: from three slices (fine), or two


def slice_bits(length: int) -> int:
    """b, the largest with L 2^(2b) <= 2^24, at most 9.

    Examples
    --------
    >>> slice_bits(22), slice_bits(122), slice_bits(776)
    (9, 8, 7)
    """
    return min(9, (24 - max(length - 1, 0).bit_length()) // 2)


@dataclass(frozen=True)
class FusedRounding:
    """Constants of the bound: eps = per_unit unit + per_norm |u| + per_square |u|^2 + fixed.

    Parameters
    ----------
    per_unit, per_norm, per_square, fixed : float
        Of the exponent's error.
    relative : float
        What exp2 and the sums err by.

    Examples
    --------
    >>> FusedRounding.of(1.0, 10.0, 22, 5000, several=False).fixed < 1e-5
    True
    """

    per_unit: float
    per_norm: float
    per_square: float
    fixed: float
    relative: float

    @classmethod
    def of(
        cls, gamma: float, largest: float, length: int, n_centers: int, *, several: bool
    ) -> FusedRounding:
        """From gamma, gamma R^2, features and centers."""
        b, L = slice_bits(length), float(length)
        left_out = L * (2.0 ** -(b + 1) * 1.01 + 2.0 ** (b + 1) * (2.0 ** -(b + 12) + 2.0**-25))
        single = 1.01 * SINGLE * LOG2E
        # Slices of K and A, and additions of the padded tiles of a group or two.
        tiles = n_centers / 64 + 16.0
        sums = SINGLE * (tiles + 8.0) + 2.0**-25 if several else SINGLE * (CENTERS / 8 + 4.0)
        return cls(
            per_unit=1.01 * (left_out + 4.0 * TENSOR * L * L),
            per_norm=single * 8.0 * math.sqrt(gamma * largest),  # gamma R = sqrt(gamma gamma R^2)
            per_square=single * 2.0 * gamma,
            fixed=single * 3.0 * largest + 2.0**-30,  # rows whose entries are all tiny
            relative=SAFETY * (EXP2 + sums),
        )

    @staticmethod
    def serves(rounding: ExactRounding) -> bool:
        """Whether an expansion is within the range that the proof covers."""
        if rounding.polynomial or rounding.by_differences or not rounding.expansion.n_centers:
            return False
        gamma = rounding.expansion.gamma
        in_range = 1e-12 <= gamma <= 1e12 and rounding.largest * LOG2E <= MOST_EXPONENT
        return in_range and rounding.expansion.n_features <= LONGEST
