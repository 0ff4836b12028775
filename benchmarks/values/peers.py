"""Who else answers: scikit-learn-intelex's SVC, and GPyTorch's Gaussian process on the CPU.

GPyTorch may live beside another Python: named by the environment's `GPYTORCH_PYTHON`, it answers
and is timed there, by this file, in the same way.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from benchmarks.values.cases import Case

__all__ = ["ELSEWHERE", "PEERS", "gpytorch_elsewhere"]

ELSEWHERE = "GPYTORCH_PYTHON"
BATCH_TURNS, BATCH_SECONDS, ONE_ROW_CALLS = 5, 0.25, 200


def intelex(case: Case) -> Callable[[Any], Any] | None:
    """The same estimator of scikit-learn-intelex, fitted to the same rows; None if it has none."""
    from benchmarks.contestant import Absent

    try:
        import sklearnex.svm as twin
    except ImportError:
        raise Absent("pip install scikit-learn-intelex") from None
    kind = getattr(twin, type(case.model).__name__, None)
    if kind is None or case.target is None:
        return None
    return case.call(kind(**case.model.get_params()).fit(case.train, case.target))


def gpytorch(case: Case) -> Callable[[Any], Any] | None:
    """An ExactGP with the same hyperparameters, in doubles, with fast predictive variances."""
    if not _served(case):
        return None
    from benchmarks.contestant import Absent

    try:
        import gpytorch  # noqa: F401
    except ImportError:
        where = f"or name a Python that has it by {ELSEWHERE}"
        raise Absent(f"pip install gpytorch, {where}") from None
    return process(**_numbers(case))


def gpytorch_elsewhere(case: Case) -> dict[str, float] | None:
    """Microseconds of GPyTorch in another Python: per row in batches, and of one row."""
    python = os.environ.get(ELSEWHERE)
    if python is None or not _served(case):
        return None
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "case.npz"
        np.savez(given, rows=case.rows, **_numbers(case))  # type: ignore[arg-type]
        found = subprocess.run(
            [python, __file__, given], capture_output=True, text=True, check=True
        )
    return json.loads(found.stdout)  # type: ignore[no-any-return]


def _served(case: Case) -> bool:
    """One kernel times a constant, and noise, on features as they come."""
    if type(case.model).__name__ != "GaussianProcessRegressor":
        return False
    kernel = case.model.kernel_
    return hasattr(kernel, "k1") and type(kernel.k1.k2).__name__ in ("RBF", "Matern")


def _numbers(case: Case) -> dict[str, Any]:
    model, kernel = case.model, case.model.kernel_
    shape = kernel.k1.k2
    return {
        "X": model.X_train_,
        "y": model.y_train_,
        "length": float(shape.length_scale),
        "nu": float(getattr(shape, "nu", 0.0)),
        "amplitude": float(kernel.k1.k1.constant_value),
        "noise": float(kernel.k2.noise_level),
        "deviations": case.method == "std",
    }


def process(
    X: Any, y: Any, length: float, nu: float, amplitude: float, noise: float, deviations: bool
) -> Callable[[Any], Any]:
    """GPyTorch's predictions; a Matern kernel where nu is not 0."""
    import gpytorch as gp
    import torch

    inner = gp.kernels.MaternKernel(nu=nu) if nu else gp.kernels.RBFKernel()

    class Process(gp.models.ExactGP):  # type: ignore[misc]
        def __init__(self, X: Any, y: Any, likelihood: Any) -> None:
            super().__init__(X, y, likelihood)
            self.mean_module = gp.means.ZeroMean()
            self.covar_module = gp.kernels.ScaleKernel(inner)

        def forward(self, X: Any) -> Any:
            return gp.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))

    likelihood = gp.likelihoods.GaussianLikelihood()
    made = Process(torch.from_numpy(X), torch.from_numpy(y), likelihood).double()
    likelihood.double()
    made.covar_module.outputscale = amplitude
    made.covar_module.base_kernel.lengthscale = length
    likelihood.noise = noise
    made.eval()
    likelihood.eval()

    def call(rows: np.ndarray) -> Any:
        with torch.no_grad(), gp.settings.fast_pred_var():
            found = made(torch.from_numpy(rows))
            if not deviations:
                return found.mean.numpy()
            return found.mean.numpy(), likelihood(found).stddev.numpy()

    return call


def timed(call: Callable[[Any], Any], rows: np.ndarray) -> dict[str, float]:
    """The best turn per row of a batch, and the median of single rows, in microseconds."""
    count = min(len(rows), 256)
    call(rows[:count])
    started = perf_counter()
    call(rows[:count])
    each = (perf_counter() - started) / count
    some = rows[: max(count, min(len(rows), int(BATCH_SECONDS / each)))]
    turns, single = [], []
    for _ in range(BATCH_TURNS):
        started = perf_counter()
        call(some)
        turns.append(1e6 * (perf_counter() - started) / len(some))
    for i in range(ONE_ROW_CALLS):
        row = np.ascontiguousarray(rows[i % 64][None])
        started = perf_counter()
        call(row)
        single.append(1e6 * (perf_counter() - started))
    return {"batch": min(turns), "one_row": statistics.median(single)}


PEERS: dict[str, Callable[[Case], Callable[[Any], Any] | None]] = {
    "scikit-learn-intelex": intelex,
    "GPyTorch": gpytorch,
}


def main() -> None:
    """Time a case that another process wrote."""
    with np.load(sys.argv[1]) as given:
        held = {name: given[name] for name in given.files}
    rows, X, y = held.pop("rows"), held.pop("X"), held.pop("y")
    call = process(X, y, **{name: value.item() for name, value in held.items()})
    print(json.dumps(timed(call, rows)))


if __name__ == "__main__":
    main()
