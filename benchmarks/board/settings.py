"""How much the board measures: all of it, a quick look, or next to nothing for tests."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PRESETS", "BoardSettings"]


@dataclass(frozen=True)
class BoardSettings:
    """Sizes of a run.

    Parameters
    ----------
    rounds : int
        Times that everybody is timed; the best counts.
    seconds : float
        A contestant that would need longer for all rows gets fewer of them.
    rows : int
        Rows of a batch; a set's test rows are repeated until there are so many.
    entries : int
        Numbers in a batch at most, where rows are wide.
    train : int, optional
        Rows to train on at most, fewer than the board's own limit.
    sample_rows : int
        Training rows given to `compile`.
    calls : int
        Timed calls of a single row.
    compilations : int
        Times that a slow compilation is timed: its first may have to load kernels.
    """

    rounds: int = 5
    seconds: float = 0.25
    rows: int = 20_000
    entries: int = 8_000_000
    train: int | None = None
    sample_rows: int = 10_000
    calls: int = 300
    compilations: int = 2


PRESETS = {
    "full": BoardSettings(),
    "quick": BoardSettings(2, 0.03, 4_000, 1_000_000, 1_000, 2_000, 30, 1),
    "tiny": BoardSettings(1, 0.005, 300, 20_000, 200, 200, 5, 1),
}
"""Name -> settings: `full`, `--quick`, and what tests take."""
