"""Tensors in, tensors out: where the rows are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.decomposition import KernelPCA
from sklearn.neighbors import KernelDensity
from sklearn.svm import SVC, SVR, OneClassSVM

import kernelite as kl
import kernelite.torch
from kernelite.backends.torch import interchange, streaming
from kernelite.backends.torch.interchange import answer_there
from kernelite.backends.torch.stages import Asked
from kernelite.program.bounded import Stats
from kernelite.program.criteria import Within, predict_criterion
from kernelite.support.errors import InputError, UnsupportedModelError
from tests.backends.torch.devices import DEVICE, needs_cuda, there

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def toy(labels: tuple[object, object] = (0, 1)) -> tuple[kl.CompiledModel, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(90, 3))
    y = np.where(X[:, 0] > 0.2, *labels)
    return kl.compile(SVC(gamma=0.05).fit(X, y), X), X


class Foreign:
    """An array of some other library that speaks DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __array_namespace__(self) -> object:
        return np


def test_tensors_are_answered_by_tensors() -> None:
    fast, X = toy()
    rows = there(X)
    labels, stats = fast.predict(rows, return_stats=True)
    assert isinstance(labels, torch.Tensor)
    assert labels.device == rows.device
    np.testing.assert_array_equal(labels.cpu(), fast.predict(X))
    assert isinstance(stats, Stats)
    assert stats.rows == 90
    decision = fast.decision_function(rows.requires_grad_())
    np.testing.assert_allclose(decision.cpu(), fast.decision_function(X), atol=1e-3)
    np.testing.assert_array_equal(
        fast.predict(there(X.astype(np.float32))).cpu(), fast.predict(X.astype(np.float32))
    )


def test_half_precision_is_read_as_the_doubles_that_it_holds() -> None:
    fast, X = toy()
    for dtype in (torch.bfloat16, torch.float16):
        rows = there(X).to(dtype)
        expected = fast.predict(rows.double().cpu().numpy())
        np.testing.assert_array_equal(fast.predict(rows).cpu(), expected)


def test_other_libraries_get_their_own_arrays_back() -> None:
    fast, X = toy()
    labels = fast.predict(Foreign(X))
    assert isinstance(labels, np.ndarray)  # its namespace is NumPy's
    np.testing.assert_array_equal(labels, fast.predict(X))


@needs_cuda
def test_a_gpu_array_of_another_library_stays_there() -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    fast, X = toy()
    labels = fast.predict(cupy.asarray(X))
    assert isinstance(labels, cupy.ndarray)
    np.testing.assert_array_equal(labels.get(), fast.predict(X))


def test_text_stays_text_in_host_memory_and_is_refused_elsewhere() -> None:
    fast, X = toy(("no", "yes"))
    if DEVICE == "cpu":
        np.testing.assert_array_equal(fast.predict(there(X)), fast.predict(X))
    criterion = predict_criterion(fast.head, fast.tolerance)
    with pytest.raises(UnsupportedModelError, match="positions in"):
        answer_there(fast, there(X), fast.head.predict, criterion)


def test_rows_on_a_gpu_take_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    fast, X = toy()
    monkeypatch.setattr(interchange, "CPU", -1)  # as if host memory were a GPU's
    rows = there(X)
    np.testing.assert_array_equal(fast.predict(rows).cpu(), fast.predict(X))
    np.testing.assert_allclose(
        fast.decision_function(rows).cpu(), fast.decision_function(X), atol=1e-3
    )
    # Scores are as good as their labels' proof, here and there.
    program = interchange.program_on(fast, rows.device)
    svc = SVC(gamma=0.05).fit(X, np.where(X[:, 0] > 0.2, 0, 1))
    exact = kl.compile(svc, X, guarantee="exact").scores(X)
    gap = np.abs(fast.scores(rows).cpu().numpy() - exact)
    assert (gap <= program(rows).bounds.cpu().numpy() + 1e-12).all()
    assert fast._programs[rows.device] is program
    with pytest.raises(InputError, match="beyond"):
        fast.predict(rows, beyond=np.zeros(90))


@pytest.mark.parametrize("tolerance", [None, 1e-7])
def test_decision_values_are_as_near_as_on_the_cpu(
    tolerance: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = np.random.default_rng(0).normal(size=(90, 3))
    svc = SVC(gamma=0.05).fit(X, X[:, 0] > 0.2)
    fast = kl.compile(svc, X, tolerance=tolerance, plan="form")
    limit = fast.score_tolerance if tolerance is None else fast.tolerance
    rows, exact = there(X), svc.decision_function(X)
    loose = interchange.program_on(fast, rows.device)(rows, labels_only=False)
    assert (loose.bounds.cpu().numpy() > limit).any(), "labels need less"
    monkeypatch.setattr(interchange, "CPU", -1)
    assert np.abs(fast.decision_function(rows).cpu().numpy() - exact).max() <= limit[0]
    program = interchange.program_on(fast, rows.device)
    near, _ = program._found(rows, Asked(None, program.rule_of(Within(limit))))
    assert (near.bounds.cpu().numpy() <= limit).all()


def test_samples_are_scored_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(90, 3))
    far = np.vstack([X, np.full((1, 3), 70.0)])
    for machine in (OneClassSVM(gamma=0.1), KernelDensity(bandwidth=0.7)):
        fast = kl.compile(machine.fit(X), X)
        expected = fast.score_samples(far)
        np.testing.assert_allclose(
            fast.score_samples(there(far)).cpu(), expected, rtol=1e-2, atol=1e-2
        )
        monkeypatch.setattr(interchange, "CPU", -1)
        np.testing.assert_allclose(
            fast.score_samples(there(far)).cpu(), expected, rtol=1e-2, atol=1e-2
        )
        monkeypatch.undo()


@pytest.mark.parametrize("block", [None, 1, 32, 1000])
def test_host_rows_are_streamed(block: int | None) -> None:
    fast, X = toy(("no", "yes"))
    expected = fast.predict(X)
    predict = kernelite.torch.predict
    np.testing.assert_array_equal(predict(fast, X, device=DEVICE, block=block), expected)
    locked = X.copy()
    locked.flags.writeable = False
    np.testing.assert_array_equal(predict(fast, locked, device=DEVICE, block=block), expected)
    parts = (torch.from_numpy(part) for part in np.array_split(X, 4))
    np.testing.assert_array_equal(predict(fast, parts, device=DEVICE, block=block), expected)


@pytest.mark.parametrize(
    "machine", [SVR(gamma=0.1), OneClassSVM(gamma=0.1), KernelPCA(2, kernel="rbf", gamma=0.1)]
)
def test_values_are_streamed_too(machine: object) -> None:
    X = np.random.default_rng(0).normal(size=(90, 3))
    fast = kl.compile(machine.fit(X, X[:, 0]), X)  # type: ignore[attr-defined]
    expected = fast.transform(X) if isinstance(machine, KernelPCA) else fast.predict(X)
    found = kernelite.torch.predict(fast, X, device=DEVICE, block=32)
    slack = 0.0 if fast.tolerance is None else 2.0 * fast.tolerance
    assert found.shape == expected.shape
    assert (np.abs(found - expected) <= slack).all()


def test_batches_of_a_parquet_file_are_streamed(tmp_path: Path) -> None:
    pandas, parquet = pytest.importorskip("pandas"), pytest.importorskip("pyarrow.parquet")
    X = np.random.default_rng(0).normal(size=(90, 3))
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    fast = kl.compile(SVC(gamma=0.05).fit(frame, X[:, 0] > 0.2), frame)
    other_order = frame[["c", "b", "a"]].assign(id=range(90))
    other_order.to_parquet(tmp_path / "rows.parquet", row_group_size=40)
    file = parquet.ParquetFile(tmp_path / "rows.parquet")
    found = kernelite.torch.predict(fast, file.iter_batches(32), device=DEVICE)
    np.testing.assert_array_equal(found, fast.predict(frame))
    without = file.iter_batches(32, columns=["a", "b"])
    with pytest.raises(InputError, match="no column 'c'"):
        kernelite.torch.predict(fast, without, device=DEVICE)


@needs_cuda
@pytest.mark.parametrize("size", [7, 4096])
def test_copies_never_overwrite_what_is_still_read(size: int) -> None:
    """Blocks of many sizes, so that memory is given back and taken while kernels are under way."""
    fast, X = toy()
    rows = np.resize(X, (40 * size, X.shape[1]))
    expected = fast.predict(rows)
    rng = np.random.default_rng(size)
    for _ in range(20):
        cuts = np.sort(rng.integers(0, len(rows), 30))
        parts = (torch.from_numpy(part) for part in np.split(rows, cuts))
        found = kernelite.torch.predict(fast, parts, device=DEVICE)
        np.testing.assert_array_equal(found, expected)


@needs_cuda
def test_blocks_that_do_not_fit_the_gpu_are_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    fast, X = toy()
    fitting, sizes = streaming._fitting, []

    def scarce(slot: object, block: torch.Tensor, device: torch.device) -> object:
        sizes.append(len(block))
        if len(block) > 30:
            raise torch.OutOfMemoryError("scarce")
        return fitting(slot, block, device)  # type: ignore[arg-type]

    monkeypatch.setattr(streaming, "_fitting", scarce)
    monkeypatch.setattr(streaming, "FEWEST_BUFFER_ROWS", 8)
    found = kernelite.torch.predict(fast, X, device=DEVICE)
    np.testing.assert_array_equal(found, fast.predict(X))
    assert sizes[:2] == [90, 45]
    monkeypatch.setattr(streaming, "FEWEST_BUFFER_ROWS", 64)
    with pytest.raises(torch.OutOfMemoryError):
        kernelite.torch.predict(fast, X, device=DEVICE)


def test_what_cannot_be_streamed_is_refused() -> None:
    fast, X = toy()
    with pytest.raises(InputError, match=r"takes \(m, 3\)"):
        kernelite.torch.predict(fast, X[:, :2], device=DEVICE)
    with pytest.raises(InputError, match="array or an iterable"):
        kernelite.torch.predict(fast, 3, device=DEVICE)


MISTAKES: dict[str, tuple[Any, str]] = {
    "an array for a module": (lambda fast, X: kernelite.torch.module(fast)(X), "dense tensor"),
    "a sparse tensor for a module": (
        lambda fast, X: kernelite.torch.module(fast)(torch.from_numpy(X).to_sparse()),
        "to_dense",
    ),
    "a sparse tensor": (lambda fast, X: fast.predict(torch.from_numpy(X).to_sparse()), "to_dense"),
    "no such device": (
        lambda fast, X: kernelite.torch.predict(fast, X, device="gpu"),
        "'gpu' is not there",
    ),
    "not compiled": (lambda fast, X: kernelite.torch.predict(SVC(), X), "must be a CompiledModel"),
    "no rows in a block": (
        lambda fast, X: kernelite.torch.predict(fast, X, device="cpu", block=-1),
        "positive number of rows",
    ),
    "a path": (
        lambda fast, X: kernelite.torch.predict(fast, "rows.csv", device="cpu"),
        "read files first",
    ),
    "text": (
        lambda fast, X: kernelite.torch.predict(fast, X.astype(str) + "m", device="cpu"),
        "real numbers",
    ),
    "complex": (
        lambda fast, X: kernelite.torch.predict(fast, X * 1j, device="cpu"),
        "real numbers",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told_in_one_sentence(name: str) -> None:
    fast, X = toy()
    call, said = MISTAKES[name]
    with pytest.raises(InputError, match=said):
        call(fast, X)
