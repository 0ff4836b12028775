"""GPyTorch's ExactGP: mean and standard deviation, where GPyTorch is installed."""

from __future__ import annotations

import numpy as np
import pytest

import kernelite
from kernelite.store.files import dumps, loads
from kernelite.support.errors import UnsupportedModelError

torch = pytest.importorskip("torch")
gpytorch = pytest.importorskip("gpytorch")
K = gpytorch.kernels


def trained(kernel, *, mean=None, forward=None, targets=None, noise=0.1):
    """A model of 40 rows with 3 features, in doubles, ready to predict."""
    rng = np.random.default_rng(0)
    X = torch.tensor(rng.normal(size=(40, 3)))
    y = torch.tensor(np.sin(X.numpy()).sum(axis=1) if targets is None else targets)

    class Model(gpytorch.models.ExactGP):
        def __init__(self) -> None:
            likelihood = gpytorch.likelihoods.GaussianLikelihood()
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean() if mean is None else mean
            self.covar_module = kernel

        def forward(self, x):
            if forward is not None:
                x = forward(x)
            where = gpytorch.distributions.MultivariateNormal
            return where(self.mean_module(x), self.covar_module(x))

    model = Model().double()
    model.likelihood.noise = noise
    if mean is None:
        model.mean_module.constant.data.fill_(0.7)
    return model.eval()


def kernels():
    """Kernels with hyperparameters set, by name."""
    rbf, matern = K.RBFKernel(), K.MaternKernel(nu=2.5, ard_num_dims=3)
    rbf.lengthscale, matern.lengthscale = 1.7, torch.tensor([[1.0, 2.0, 3.0]])
    scaled = K.ScaleKernel(matern)
    scaled.outputscale = 2.3
    return {
        "rbf": rbf,
        "scaled matern, length scales": scaled,
        "matern 1/2": K.MaternKernel(nu=0.5),
        "matern 3/2": K.ScaleKernel(K.MaternKernel(nu=1.5)),
        "rational": K.ScaleKernel(K.RQKernel()),
        "sum": K.ScaleKernel(K.RBFKernel()) + K.LinearKernel(),
        "product": K.RBFKernel() * K.MaternKernel(nu=1.5),
    }


@pytest.mark.parametrize("name", kernels())
def test_means_and_deviations_are_gpytorchs(name):
    model = trained(kernels()[name])
    Z = np.random.default_rng(1).normal(size=(200, 3))
    with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
        theirs = model(torch.tensor(Z))
    compiled = kernelite.compile(model, Z)
    mean, deviation = compiled.predict(Z, return_std=True)
    limit = float(compiled.tolerance[0]) + 1e-6
    np.testing.assert_allclose(mean, theirs.mean.numpy(), atol=limit)
    np.testing.assert_allclose(deviation, theirs.stddev.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(loads(dumps(compiled)).predict(Z), mean)


def test_what_is_not_served_is_refused():
    warped = trained(K.RBFKernel(), forward=lambda x: x**3)
    for model, found in (
        (warped, "does more than its `mean_module`"),
        (trained(K.CosineKernel()), "has a CosineKernel"),
        (trained(K.RBFKernel(active_dims=[0])), "active_dims"),
        (trained(K.RBFKernel(), mean=gpytorch.means.LinearMean(3)), "a LinearMean as mean"),
    ):
        with pytest.raises(UnsupportedModelError, match=found):
            kernelite.compile(model)
