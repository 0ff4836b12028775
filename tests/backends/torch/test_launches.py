"""Few rows, padded to a size: the same answers, whatever pads them and whoever calls."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, OneClassSVM

import kernelite as kl
from kernelite.backends.torch import interchange
from kernelite.backends.torch.program import Program
from kernelite.backends.torch.tensors import LARGE, TensorValue, TorchOps, constants_used
from kernelite.machine.heads.coupling import couple
from kernelite.machine.heads.pairwise import ovr_scores, pair_sums
from kernelite.support.errors import InputError
from tests.backends.torch.devices import DEVICE, kernels_run, there

pytestmark = [kernels_run, pytest.mark.filterwarnings("ignore")]

MACHINES = {
    "two classes": SVC(gamma=0.02),
    "two classes, no form": SVC(gamma=1.0),
    "three classes": SVC(gamma=0.5),
    "probabilities": SVC(gamma=0.5, probability=True, random_state=0),
    "three probabilities": SVC(gamma=0.5, probability=True, random_state=0),
    "scaled": make_pipeline(StandardScaler(), SVR(gamma=0.3)),
    "ridge": KernelRidge(kernel="rbf", gamma=0.3, alpha=0.1),
    "outliers": OneClassSVM(gamma=0.5),
    "density": KernelDensity(bandwidth=0.4, rtol=1e-4),
    "process": GaussianProcessRegressor(RBF(1.0) + WhiteKernel(0.5)),
}
ASKED = ("predict", "decision_function", "predict_proba", "score_samples")


def compiled(name: str) -> tuple[kl.CompiledModel, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(150, 4))
    y = np.digitize(X[:, 0] + X[:, 1] ** 2, [0.0, 1.0] if "three" in name else [0.5])
    return kl.compile(copy.deepcopy(MACHINES[name]).fit(X, y), X), X


@pytest.mark.parametrize("name", MACHINES)
def test_few_rows_get_what_many_get(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fast, X = compiled(name)
    monkeypatch.setattr(interchange, "CPU", -1)  # as if host memory were a GPU's
    program = interchange.program_on(fast, there(X).device)
    program.kernels, program.recorded = True, True
    rows = np.vstack([X[:70], X[:3] * 40.0])
    for method in ASKED:
        if method not in fast.offers:
            continue
        wanted = getattr(fast, method)(rows)
        for count in (1, 16, 17, 73):
            found = getattr(fast, method)(there(rows[-count:])).cpu().numpy()
            if found.dtype.kind in "biu":
                np.testing.assert_array_equal(found, wanted[-count:])
            else:
                close = 2e-3 * (np.abs(wanted).max() + 1.0)
                np.testing.assert_allclose(found, wanted[-count:], atol=close, rtol=2e-3)


def test_rows_that_pad_count_for_nothing() -> None:
    fast, X = compiled("two classes, no form")
    program = Program(fast).to(DEVICE)
    program.kernels, program.recorded = True, True
    program.predict(there(np.vstack([X[:15], np.full((1, 4), 1e200)])))  # stays in the buffer
    _, counts = program.answers(there(X[:3]), "predict", None, None)
    assert sum(counts[:4]) == 3
    assert counts[4] == 0
    rows = X[:16].copy()
    rows[9, 1] = np.nan
    with pytest.raises(InputError, match="row 9"):
        program.predict(there(rows))
    program.predict(there(X[:8]))  # the bad row still lies in the buffer


def test_callers_do_not_get_each_others_answers() -> None:
    fast, X = compiled("two classes")
    program = Program(fast).to(DEVICE)
    program.kernels, program.recorded = True, True
    wanted = fast.predict(X)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: program.predict(there(X[i : i + 1])).labels, range(40)))
    np.testing.assert_array_equal(torch.cat(found).cpu().numpy(), wanted[:40])


def test_a_copy_records_for_itself() -> None:
    fast, X = compiled("two classes")
    program = Program(fast).to(DEVICE)
    program.kernels, program.recorded = True, True
    program.predict(there(X[:5]))
    other = copy.deepcopy(program)
    assert other.graphs is not program.graphs
    np.testing.assert_array_equal(other.predict(there(X[:5])).labels.cpu(), fast.predict(X[:5]))


@pytest.mark.parametrize("classes", [2, 3, 5, 9])
def test_the_kernel_couples_as_the_definition_does(classes: int) -> None:
    from kernelite.backends.torch.kernels.votes import run_couple

    rng = np.random.default_rng(classes)
    first = rng.uniform(1e-7, 1.0 - 1e-7, size=(37, classes * (classes - 1) // 2))
    first[:5] = np.where(rng.random(first[:5].shape) < 0.5, 1e-7, 1.0 - 1e-7)
    found = run_couple(there(first), classes).cpu().numpy()
    np.testing.assert_allclose(found, couple(first, classes, None)[0], atol=1e-12)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rows_are_copied_from_where_they_lie(kind: type) -> None:
    from kernelite.backends.torch.kernels.rows import run_begin

    given = there(np.arange(1500 * 3).reshape(1500, 3).astype(kind))
    buffer = torch.full((4096, 3), -1.0, dtype=given.dtype, device=DEVICE)
    count, tally = (torch.full((n,), 7, dtype=torch.int32, device=DEVICE) for n in (1, 11))
    here = torch.tensor([1200, given.data_ptr()])
    run_begin(here.pin_memory() if DEVICE == "cuda" else here, buffer, count, tally)
    assert bool((buffer[:1200] == given[:1200]).all())
    assert bool((buffer[1200:] == -1.0).all())
    assert int(count) == 1200
    assert not tally.any()


def test_what_is_recorded_keeps_its_constants() -> None:
    """A graph reads them where they were; so they must not be given back while it lives."""
    table, large = np.arange(3.0), np.arange(20_000.0)
    with constants_used() as used:
        ops = TorchOps(torch.device(DEVICE))
        mine = ops.tensor(table), ops.tensor(large)
    assert [one.data_ptr() for one in used] == [one.data_ptr() for one in mine]
    assert ops.tensor(large).data_ptr() == mine[1].data_ptr()
    same = ops.tensor(large.copy())
    assert same.data_ptr() != mine[1].data_ptr()
    assert bool((same == mine[1]).all())
    assert len(used) == 2


@pytest.mark.parametrize("formula", [ovr_scores, pair_sums])
def test_tables_of_many_classes_are_copied_once(formula: Any) -> None:
    """To copy them while a launch is recorded is an error; so formulas may not make them anew."""
    classes = 30
    scores = TensorValue(torch.ones(4, classes * (classes - 1) // 2, device=DEVICE).double())
    tables = []
    for _ in range(2):
        with constants_used() as used:
            formula(scores, classes)
        tables.append([one for one in used if one.nbytes >= LARGE])
    first, again = ([one.data_ptr() for one in some] for some in tables)
    assert first == again != []
