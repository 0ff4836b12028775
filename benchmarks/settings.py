"""How much to measure: `quick` for `make bench`, `full` to publish, `tiny` for tests."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PRESETS", "Settings"]


@dataclass(frozen=True)
class Settings:
    """Sizes of a run.

    Parameters
    ----------
    rounds : int
        Times that everybody is timed; the best counts.
    seconds : float
        A contestant that would need longer for all rows gets fewer of them.
    sample_rows : int
        Training rows given to `compile` and to the peers that learn from scores.
    calls : int
        Timed calls of a single row.
    file_megabytes : float
        Size that the test file is repeated to, file to file.
    centers, features, rows : tuple of int
        Axes of the scaling curves.
    memory_rows : int
        Rows of the call whose memory is measured.
    gemm_size, triad_megabytes : int
        Sizes of the roofline's probes.
    """

    rounds: int = 5
    seconds: float = 0.5
    sample_rows: int = 10_000
    calls: int = 1_000
    file_megabytes: float = 15.0
    centers: tuple[int, ...] = (1_000, 4_000, 16_000)
    features: tuple[int, ...] = (8, 32, 128, 512)
    rows: tuple[int, ...] = (1, 100, 10_000, 1_000_000)
    memory_rows: int = 1_000_000
    gemm_size: int = 1_500
    triad_megabytes: int = 128


PRESETS = {
    "tiny": Settings(
        rounds=1,
        seconds=0.02,
        sample_rows=400,
        calls=5,
        file_megabytes=0.05,
        centers=(50, 100),
        features=(3, 8),
        rows=(1, 300),
        memory_rows=2_000,
        gemm_size=64,
        triad_megabytes=1,
    ),
    "quick": Settings(),
    "full": Settings(
        rounds=9,
        seconds=1.0,
        sample_rows=32_000,
        calls=5_000,
        file_megabytes=150.0,
        centers=(1_000, 4_000, 16_000, 64_000),
        features=(8, 16, 32, 64, 128, 256, 512, 1_024, 2_048),
        rows=(1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000),
        memory_rows=10_000_000,
        gemm_size=3_000,
        triad_megabytes=512,
    ),
}
"""Name -> settings of `--preset`."""
