"""The paper's own figures, as printed in its three tables; for comparison only.

Claesen, De Smet, Suykens and De Moor (2014), arXiv:1403.0736. Their machine: an Intel i5-3550K at
3.3 GHz with AVX. Times include reading the rows as text, which the authors call most of the
approximated runs.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PRINTED", "Printed", "PrintedSpeed"]


@dataclass(frozen=True)
class PrintedSpeed:
    """A line of table 2: seconds with their deviations, and the ratios.

    Ratio 1 is the exact time over the time to predict, ratio 2 over the time to approximate and
    predict.
    """

    way: str
    predict: float
    deviation: float
    approximate: float | None
    approximate_deviation: float | None
    ratio_1: float
    ratio_2: float


@dataclass(frozen=True)
class Printed:
    """What the tables say of a set. Shares are in percent, sizes as they are printed."""

    gamma_max: float
    gamma: float
    support_vectors: int
    accuracy: float
    differ: float
    speed: tuple[PrintedSpeed, ...] = ()
    exact_size: str | None = None
    form_size: str | None = None
    size_ratio: float | None = None

    @property
    def optimal(self) -> PrintedSpeed | None:
        """The line that the paper calls optimal, which is its last."""
        return self.speed[-1] if self.speed else None


def _speed(
    exact: tuple[float, float],
    blas: tuple[float, float, float, float, float, float],
    loops: tuple[float, float, float, float, float, float],
    optimal: tuple[str, float, float, float, float, float, float],
) -> tuple[PrintedSpeed, ...]:
    """Lines from (approximate, ±, predict, ±, ratio 1, ratio 2)."""

    def line(way: str, *one: float) -> PrintedSpeed:
        approximate, its_deviation, predict, deviation, first, second = one
        return PrintedSpeed(way, predict, deviation, approximate, its_deviation, first, second)

    return (
        PrintedSpeed("exact", *exact, None, None, 1.0, 1.0),
        line("BLAS, SIMD off", *blas),
        line("LOOPS, SIMD on", *loops),
        line(f"optimal: {optimal[0]}, SIMD on", *optimal[1:]),
    )


PRINTED = {
    "a9a 0.01": Printed(
        *(0.018, 0.01, 11_834, 84.8, 0.2),
        _speed(
            (13.75, 0.060),
            (0.05, 0.002, 0.160, 0.002, 86, 65),
            (0.56, 0.021, 0.146, 0.003, 94, 19),
            ("BLAS", 0.05, 0.002, 0.146, 0.003, 94, 70),
        ),
        *("830 KB", "111 KB", 7.5),
    ),
    "a9a 0.02": Printed(0.018, 0.02, 11_674, 84.9, 1.3),
    "a9a 0.1": Printed(0.018, 0.1, 11_901, 85.0, 3.5),
    "mnist1": Printed(
        *(0.001, 0.0001, 2_174, 99.3, 0.08),
        _speed(
            (12.81, 0.016),
            (0.036, 0.001, 1.757, 0.008, 7.3, 7.1),
            (1.480, 0.005, 1.405, 0.006, 9.1, 4.4),
            ("BLAS", 0.036, 0.001, 1.405, 0.006, 9.1, 8.9),
        ),
        *("3.2 MB", "3.7 MB", 0.86),
    ),
    "ijcnn1": Printed(
        *(0.064, 0.05, 4_044, 97.7, 0.46),
        _speed(
            (15.87, 0.012),
            (0.010, 0.000, 0.679, 0.012, 23, 23),
            (0.010, 0.000, 0.667, 0.016, 24, 23),
            ("BLAS", 0.010, 0.000, 0.667, 0.016, 24, 23),
        ),
        *("628 KB", "4.2 KB", 150.0),
    ),
    "sensit": Printed(
        *(0.0025, 0.003, 25_722, 86.5, 0.95),
        _speed(
            (79.62, 0.127),
            (0.670, 0.000, 0.590, 0.000, 134, 63),
            (1.437, 0.036, 0.581, 0.012, 137, 39),
            ("ATLAS", 0.565, 0.005, 0.581, 0.012, 137, 69),
        ),
        *("32 MB", "113 KB", 290.0),
    ),
    "epsilon": Printed(
        *(0.25, 0.35, 36_988, 89.2, 0.53),
        _speed(
            (622.1, 0.165),
            (1.161, 0.003, 10.78, 0.110, 58, 52),
            (43.98, 0.495, 9.68, 0.03, 64, 12),
            ("ATLAS", 0.442, 0.029, 9.68, 0.03, 64, 61),
        ),
        *("1.1 GB", "42 MB", 27.0),
    ),
}
"""By the names of `facts.ROWS`. Speed and size of a9a are printed once: here in its first row."""
