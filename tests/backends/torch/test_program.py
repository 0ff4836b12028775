"""Whole models as modules: labels of the CPU, devices, state, blocks, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.decomposition import KernelPCA
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from sklearn.svm import SVC, SVR, OneClassSVM

import kernelite as kl
import kernelite.torch
from kernelite.backends.torch import launches
from kernelite.backends.torch import program as module
from kernelite.backends.torch.program import Program
from kernelite.support.errors import InputError, UnsupportedModelError
from tests.backends.torch.devices import DEVICE, kernels_run, there
from tests.models import MODELS, fitted

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

NAMES = (
    "svc binary",
    "svc binary booleans",
    "svc binary poly",
    "svc iris ovo",
    "svc digits",
    "nusvc binary",
    "svr diabetes",
    "ridge linnerud three targets",
    "ridge diabetes one column",
    "gpr friedman length scales",
)


def rows_and_model(name: str, **options: object) -> tuple[kl.CompiledModel, np.ndarray]:
    model, rows = fitted(name)
    return kl.compile(model, rows, **options), rows


@pytest.mark.parametrize("kernels", [False, pytest.param(True, marks=kernels_run)])
@pytest.mark.parametrize("name", NAMES)
def test_labels_are_the_cpus_and_values_within_both_bounds(name: str, kernels: bool) -> None:
    assert name in MODELS
    fast, rows = rows_and_model(name)
    program = Program(fast).to(DEVICE)
    program.kernels = kernels
    found, answers = program(there(rows)), fast.predict(rows)
    if fast.head.kind == "classifier":
        np.testing.assert_array_equal(found.labels.cpu().numpy(), answers)
        labels = program.predict(there(rows)).labels
        np.testing.assert_array_equal(labels.cpu().numpy(), answers)
        return
    slack = 2.0 * np.broadcast_to(fast.tolerance, found.bounds.shape[1:])
    assert found.labels.shape == answers.shape
    error = np.abs(found.labels.cpu().numpy() - answers).reshape(len(rows), -1)
    assert (error <= slack).all()
    assert (found.bounds.cpu().numpy() <= fast.tolerance * (1.0 + 1e-9)).all()


MACHINES = {
    "pipeline": make_pipeline(StandardScaler(), SVC(gamma=0.02)),
    "outliers": OneClassSVM(gamma=0.05),
    "density": KernelDensity(bandwidth=2.0, rtol=1e-4),
    "components": KernelPCA(3, kernel="rbf", gamma=0.02),
    "process": GaussianProcessRegressor(RBF(3.0) + WhiteKernel(0.5)),
}


def toy() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(120, 4))
    return X, (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)


@pytest.mark.parametrize("guarantee", ["certified", "exact"])
@pytest.mark.parametrize("name", MACHINES)
def test_machines_of_every_kind_answer_like_the_cpu(name: str, guarantee: str) -> None:
    X, y = toy()
    fast = kl.compile(MACHINES[name].fit(X, y), X, guarantee=guarantee)
    found = Program(fast).to(DEVICE)(there(X)).labels.cpu().numpy()
    names = {"density": "score_samples", "components": "transform"}
    method = getattr(fast, names.get(name, "predict"))
    expected = method(X)
    if name in ("pipeline", "outliers"):
        np.testing.assert_array_equal(found, expected)
    else:
        slack = 1e-9 if fast.tolerance is None else 2.0 * fast.tolerance
        assert (np.abs(found - expected) <= slack).all()


def test_far_densities_are_summed_in_logarithms() -> None:
    X, _ = toy()
    fast = kl.compile(KernelDensity(bandwidth=0.5).fit(X), X)
    far = np.full((2, 4), 60.0)
    found = Program(fast).to(DEVICE)(there(far)).labels.cpu().numpy()
    np.testing.assert_allclose(found, fast.score_samples(far), rtol=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_none_and_calibrated_models_answer_like_the_cpu(classes: int) -> None:
    X, y = toy()
    machine = SVC(gamma=0.02).fit(X, y if classes == 2 else np.digitize(X[:, 0], [-0.5, 0.5]))
    for options in ({"guarantee": "none", "on_invalid": "ignore"}, {"guarantee": "calibrated"}):
        fast = kl.compile(machine, np.tile(X, (60, 1)), **options)
        found = Program(fast).to(DEVICE)(there(X))
        np.testing.assert_array_equal(found.labels.cpu().numpy(), fast.predict(X))


@kernels_run
def test_the_fused_sums_settle_what_the_form_leaves_open() -> None:
    X, y = toy()
    fast = kl.compile(SVC(gamma=0.3).fit(X, y), X)
    program = Program(fast).to(DEVICE)
    program.kernels = True
    stages = np.bincount(program(there(X)).stage.cpu().numpy(), minlength=3)
    assert stages[1] > stages[2]
    assert (program(there(X)).labels.cpu().numpy() == fast.predict(X)).all()
    # Scores that are answered themselves are not looser than the form's.
    loose, tight = program(there(X)), program(there(X), labels_only=False)
    assert (tight.bounds <= loose.bounds).all()


def test_state_travels_and_types_do_not_change() -> None:
    X, y = toy()
    fast = kl.compile(SVC(gamma=0.05).fit(X, y), X)
    program = kernelite.torch.module(fast)
    state = {name: value.clone() for name, value in program.state_dict().items()}
    assert not list(program.parameters())
    halved = program.half().to(torch.float32).to(DEVICE)
    for name, value in halved.state_dict().items():
        assert value.dtype == state[name].dtype
        assert value.device.type == DEVICE
    other = kernelite.torch.module(fast)
    for buffer in other.buffers():
        buffer.zero_()
    other.load_state_dict(state)
    np.testing.assert_array_equal(other(torch.from_numpy(X)).labels, fast.predict(X))


def test_out_of_memory_is_met_by_smaller_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = toy()
    fast = kl.compile(SVC(gamma=0.05).fit(X, y), X)
    program, sizes = Program(fast).to(DEVICE), []
    program.recorded, run = False, module.run_stages

    def scarce(program: Program, rows: torch.Tensor, *options: Any) -> Any:
        sizes.append(len(rows))
        if len(rows) > 70:
            raise torch.OutOfMemoryError("scarce")
        return run(program, rows, *options)

    monkeypatch.setattr(module, "run_stages", scarce)
    np.testing.assert_array_equal(program(there(X)).labels.cpu().numpy(), fast.predict(X))
    assert sizes[0] == 120
    assert max(sizes[1:]) <= 70
    monkeypatch.setattr(launches, "FEWEST_BUFFER_ROWS", 1000)
    with pytest.raises(torch.OutOfMemoryError):
        program(there(X))


def test_what_is_not_lowered_is_refused_in_one_sentence() -> None:
    X, y = toy()
    kept = make_pipeline(QuantileTransformer(n_quantiles=10), SVC(gamma=0.1)).fit(X, y)
    with pytest.raises(UnsupportedModelError, match=r"QuantileMap.*not lowered"):
        Program(kl.compile(kept, X))
    latent = GaussianProcessClassifier(RBF(2.0), optimizer=None).fit(X, np.arange(120) % 3)
    with pytest.raises(UnsupportedModelError, match="not lowered to torch"):
        Program(kl.compile(latent, X))
    with pytest.raises(InputError, match="must be a CompiledModel"):
        kernelite.torch.module(SVC())  # type: ignore[arg-type]


def test_rows_are_checked() -> None:
    X, y = toy()
    program = Program(kl.compile(SVR(gamma=0.1).fit(X, y), X)).to(DEVICE)
    with pytest.raises(InputError, match=r"takes \(m, 4\)"):
        program(there(X[:, :3]))
    with pytest.raises(InputError, match="real numbers"):
        program(there(X).to(torch.complex128))
    for bad in (np.nan, np.inf):
        rows = X.copy()
        rows[17, 1] = bad
        with pytest.raises(InputError, match="row 17"):
            program(there(rows))
    with pytest.raises(InputError, match="move one"):
        program(torch.empty(2, 4, device="meta"))
    assert program(there(X[:0])).labels.shape == (0,)
