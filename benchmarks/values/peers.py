"""Who else answers: scikit-learn-intelex's SVC, and GPyTorch's Gaussian process on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.contestant import Absent
from benchmarks.values.cases import Case

__all__ = ["PEERS"]


def intelex(case: Case) -> Callable[[Any], Any] | None:
    """The same estimator of scikit-learn-intelex, fitted to the same rows; None if it has none."""
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
    if type(case.model).__name__ != "GaussianProcessRegressor":
        return None
    try:
        import gpytorch as gp
        import torch
    except ImportError:
        raise Absent("pip install gpytorch") from None
    model, kernel = case.model, case.model.kernel_
    shape, noise = kernel.k1.k2, float(kernel.k2.noise_level)
    inner = gp.kernels.RBFKernel()
    if type(shape).__name__ == "Matern":
        inner = gp.kernels.MaternKernel(nu=shape.nu)

    class Process(gp.models.ExactGP):  # type: ignore[misc]
        def __init__(self, X: Any, y: Any, likelihood: Any) -> None:
            super().__init__(X, y, likelihood)
            self.mean_module = gp.means.ZeroMean()
            self.covar_module = gp.kernels.ScaleKernel(inner)

        def forward(self, X: Any) -> Any:
            return gp.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))

    likelihood = gp.likelihoods.GaussianLikelihood()
    X, y = torch.from_numpy(model.X_train_), torch.from_numpy(model.y_train_)
    process = Process(X, y, likelihood).double()
    likelihood.double()
    process.covar_module.outputscale = float(kernel.k1.k1.constant_value)
    process.covar_module.base_kernel.lengthscale = float(shape.length_scale)
    likelihood.noise = noise
    process.eval()
    likelihood.eval()

    def call(rows: np.ndarray) -> Any:
        with torch.no_grad(), gp.settings.fast_pred_var():
            found = process(torch.from_numpy(rows))
            if case.method != "std":
                return found.mean.numpy()
            return found.mean.numpy(), likelihood(found).stddev.numpy()

    return call


PEERS: dict[str, Callable[[Case], Callable[[Any], Any] | None]] = {
    "scikit-learn-intelex": intelex,
    "GPyTorch": gpytorch,
}
