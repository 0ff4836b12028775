"""What the fused sums may err by: half-precision pairs on tensor cores, inside a proven bound.

    f(z) = sum_i A_i 2^(e_i) + b,    e_i = g (2 s_i.u - |s_i|^2 - |u|^2),    g = gamma log2(e)

with s_i = x_i - p and u = z - p in doubles.

*Pairs.* A number x is scaled by a power of two and held as two numbers of half precision: h, x
rounded to 11 bits, and l, the rest rounded to 11 bits. |x - h - l| <= 2^-22 |x|, or 2^-25 where l
is below the normal range. This is the pair that tf32x3 takes (tf32 has the same 11 bits), at half
the bytes and twice the rate; the smaller range is what the scaling is for: the largest entry
of a row, and of all centers, lies in [2^13, 2^14), so that 2^-25 is 2^-38 of it.

*Products.* xy is replaced by l h + h l + h h: l l and the two rests cost 3 * 2^-22 |x y|, the floors
2 sqrt(L) 2^-38 |s| |u|, less than 2^-22 of it for L < 2^28.

*Tensor cores.* ASSUMED, and attacked by `benchmarks gpu`: products of halves are exact, and adding
l of them to an accumulator, in whatever blocks, with truncation instead of rounding and with
alignment to the largest, errs by at most l 2^-22 times the sum of the absolute values of all that
was added up. (Published measurements of Volta to Hopper: truncation, at least one guard bit,
blocks of 4 to 16: l 2^-23 would do.) Sums are taken in chunks of `CHUNK` features, the small
products first: CHUNK (1 + 2^-8) 2^-22; chunks are added in single precision, 2^-24 each.

*The exponent.* With P = 2 g R |u| >= the sum of all |products|, R = max |s_i|: scaling back,
adding -g |s|^2 and -g |u|^2 (both rounded) costs 2^-24 (2 P + 3 g R^2 + 2 g |u|^2). Together

    |e^ - e| <= eps = 2^-22 ((1.01 CHUNK + chunks / 4 + 5) P + g R^2 + g |u|^2)

*exp2.* ASSUMED to err by 2^-21 relatively where its value is normal, and to give at most 2^-125
below; `benchmarks gpu` tries all its inputs (PTX documents 2^-22 for ex2.approx). So K^ = K (1 + t)
with |t| <= 0.7 eps + 2^-21 for eps <= `MOST_ERROR`.

*Sums.* With one output: coefficients and products round by 2^-24 each, a tile of `CENTERS` sums in
any order by CENTERS 2^-24, tiles are added in doubles. With several, K and A are pairs again and
sums run on the tensor cores: (1.01 CENTERS + 4 + tiles / 4) 2^-22, and floors of 2^-38 of the
largest coefficient for each center. sum_i |A_i| K_i is summed up beside, with hardly any accuracy
(2^-8) in the second case.

*Doubles.* All that remains (s, u, |u|^2, the last sums) is in the bound of the exact engine,
`engines.exact_rounding`, which is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernelite.approximation.rounding import SAFETY
from kernelite.engines.exact_rounding import ExactRounding

__all__ = ["CENTERS", "CHUNK", "MOST_ERROR", "FusedRounding"]

PAIR = 2.0**-22  # what a pair of halves, and a product on tensor cores, err by
CENTERS = 128  # at most, in a tile
CHUNK = 64  # features at most, that one accumulator sums up
EXP2 = 2.0**-21
SINGLE = 2.0**-24
MOST_ERROR = 0.01  # of an exponent; beyond, nothing is known
TINY = 2.0**-124  # what a kernel value or a product may lose by underflow
LOG2E = math.log2(math.e)
LONGEST = 1 << 20  # features, so that floors stay below what is counted
MOST_EXPONENT = 4e3  # g R^2, so that constants and scales stay well inside single precision


@dataclass(frozen=True)
class FusedRounding:
    """Constants of the bound: eps = per_norm |u| + fixed + per_square |u|^2; see above.

    Parameters
    ----------
    per_norm, per_square, fixed : float
        Of the exponent's error.
    relative : float
        What exp2 and the sums err by.
    several : bool
        Whether sums run on tensor cores, with several outputs.

    Examples
    --------
    >>> FusedRounding.of(1.0, 10.0, 22, 5000, several=False).fixed < 1e-5
    True
    """

    per_norm: float
    per_square: float
    fixed: float
    relative: float
    several: bool

    @classmethod
    def of(
        cls, gamma: float, largest: float, length: int, n_centers: int, *, several: bool
    ) -> FusedRounding:
        """From gamma, gamma R^2, features and centers."""
        chunks = math.ceil(length / CHUNK)
        product = PAIR * (1.01 * CHUNK + 0.25 * chunks + 5.0)
        tiles = math.ceil(n_centers / 16) + 4  # more than there are, padded groups included
        if several:
            sums = PAIR * (1.01 * CENTERS + 4.0 + 0.25 * tiles) * (1.0 + 2.0**-8)
        else:
            sums = SINGLE * (CENTERS + 4.0)
        return cls(
            per_norm=product * 2.0 * LOG2E * math.sqrt(gamma * largest),
            per_square=PAIR * LOG2E * gamma,
            fixed=PAIR * LOG2E * largest + 2.0**-30,  # rows whose entries are all tiny
            relative=SAFETY * (EXP2 + sums),
            several=several,
        )

    @staticmethod
    def serves(rounding: ExactRounding) -> bool:
        """Whether an expansion is within the range that the proof covers."""
        if rounding.polynomial or rounding.by_differences or not rounding.expansion.n_centers:
            return False
        gamma = rounding.expansion.gamma
        in_range = 1e-12 <= gamma <= 1e12 and rounding.largest * LOG2E <= MOST_EXPONENT
        return in_range and rounding.expansion.n_features <= LONGEST
