"""What the paper's rows are, and what is known of its tool on them; where nothing is, None.

`printed` has the paper's own figures. Here: of its tool approxsvm, run on the models of ../shared,
label differences and sizes of its text models.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ROWS", "PaperRow"]


@dataclass(frozen=True)
class PaperRow:
    """A row of the paper's tables.

    Parameters
    ----------
    name : str
    data : str
        Set of `kernelite.data.datasets.SETS`.
    features, test_rows : int
    gamma, C : float, optional
        None: chosen when measuring. C is never stated by the paper; ours comes nearest to its
        accuracy.
    model : str, optional
        File of ../shared/models.
    positive : float, optional
        The class that is set against the rest.
    swapped : bool
        Whether training and test file change places.
    most_rows : int, optional
        Rows used of each file, where more would not fit into memory.
    support_vectors, accuracy, size_ratio : optional
        The paper's, where a model of that row is measured.
    tool_differs, tool_bytes : int, optional
        approxsvm's, on the shared model.
    tool_speed : tuple of float, optional
        svm-predict's time over approxsvm's, without and with approximation. By
        processor time of the commands (best of 3, an AMD EPYC, approxsvm built without BLAS),
        reading the rows as text included, less the time for one row; shown where its program is
        not given.
    """

    name: str
    data: str
    features: int
    test_rows: int
    gamma: float | None = None
    C: float = 1.0
    model: str | None = None
    positive: float | None = None
    swapped: bool = False
    most_rows: int | None = None
    support_vectors: int | None = None
    accuracy: float | None = None
    size_ratio: float | None = None
    tool_differs: int | None = None
    tool_bytes: int | None = None
    tool_speed: tuple[float, float] | None = None


ROWS = (
    PaperRow(
        "a9a 0.01",
        "a9a",
        123,
        16_281,
        gamma=0.01,
        model="a9a_g0.01_c1",
        tool_speed=(47.3, 16.1),
        support_vectors=11_834,
        accuracy=84.8,
        size_ratio=7.5,
        tool_differs=34,
        tool_bytes=113_477,
    ),
    PaperRow(
        "a9a 0.02",
        "a9a",
        123,
        16_281,
        gamma=0.02,
        model="a9a_g0.02_c1",
        tool_speed=(46.2, 14.9),
        support_vectors=11_674,
        accuracy=84.9,
    ),
    PaperRow(
        "a9a 0.1",
        "a9a",
        123,
        16_281,
        gamma=0.1,
        model="a9a_g0.1_c1",
        tool_speed=(46.2, 13.1),
        support_vectors=11_901,
        accuracy=85.0,
    ),
    PaperRow(
        "mnist1",
        "mnist",
        780,
        10_000,
        gamma=1e-4,
        C=32.0,
        model="mnist1_g0.0001_c32",
        tool_speed=(1.88, 0.82),
        positive=1.0,
        support_vectors=2_174,
        accuracy=99.3,
        size_ratio=0.86,
        tool_differs=0,
        tool_bytes=3_729_507,
    ),
    PaperRow(
        "ijcnn1",
        "ijcnn1",
        22,
        91_701,
        gamma=0.05,
        C=100.0,
        model="ijcnn1_g0.05_c100",
        tool_speed=(34.5, 33.1),
        support_vectors=4_044,
        accuracy=97.7,
        size_ratio=150.0,
        tool_differs=472,
        tool_bytes=4_169,
    ),
    PaperRow("sensit", "sensit", 100, 19_705, positive=3.0),
    PaperRow("epsilon", "epsilon", 2_000, 400_000, swapped=True, most_rows=20_000),
)
"""In the order of the tables here."""
