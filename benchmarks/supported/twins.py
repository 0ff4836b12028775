"""Machines that are given to kernelite as arrays, or by calling them: trained and run in NumPy.

Each has `fit`, answers in the slow way, and `source`: what `kernelite.compile` is given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.interpolate import RBFInterpolator
from scipy.spatial.distance import cdist
from scipy.stats import gaussian_kde
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans

from kernelite.sources.least_squares import least_squares_svm
from kernelite.sources.nearest_means import discriminant_projection, kernel_kmeans

__all__ = [
    "DensityTwin",
    "DiscriminantTwin",
    "InterpolatorTwin",
    "KernelMeansTwin",
    "LeastSquaresTwin",
    "ProcessTwin",
    "SeriesMeansTwin",
    "compilable",
]


def compilable(model: Any) -> Any:
    """What to compile: the model itself, or what a twin says."""
    return getattr(model, "source", model)


class _Twin(BaseEstimator):
    gamma = 0.02

    def kernel(self, X: np.ndarray) -> np.ndarray:
        return np.exp(-self.gamma * cdist(X, self.rows, "sqeuclidean"))


class LeastSquaresTwin(_Twin):
    """A least-squares SVM for classification."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> LeastSquaresTwin:
        self.rows, self.classes_ = X, np.array([-1, 1])
        signs = np.where(y == np.unique(y)[-1], 1.0, -1.0)
        H = self.kernel(X) + 0.1 * np.eye(len(X))
        v, nu = np.linalg.solve(H, signs), np.linalg.solve(H, np.ones(len(X)))
        self.bias = (nu @ signs) / nu.sum()
        self.alphas = v - nu * self.bias
        self.source = least_squares_svm(
            X, self.alphas, self.bias, self.gamma, kind="classification"
        )
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return self.kernel(X) @ self.alphas + self.bias

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.where(self.decision_function(X) >= 0, 1, -1)


class KernelMeansTwin(_Twin):
    """Kernel k-means, from the clusters of plain k-means."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> KernelMeansTwin:
        labels = KMeans(3, n_init=1, random_state=0).fit(X).labels_
        self.rows, self.classes_ = X, np.arange(3)
        self.member = np.eye(3)[labels] / np.bincount(labels)
        self.norms = np.einsum("ij,ij->j", self.member, self.kernel(X) @ self.member)
        self.source = kernel_kmeans(X, labels, self.gamma)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.argmin(self.norms - 2.0 * self.kernel(X) @ self.member, axis=1)


class DiscriminantTwin(_Twin):
    """Kernel discriminant directions."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> DiscriminantTwin:
        self.rows = X
        K = self.kernel(X)
        means = np.stack([K[:, y == c].mean(axis=1) for c in np.unique(y)])
        within = sum(np.cov(K[:, y == c], bias=True) for c in np.unique(y))
        self.directions = np.linalg.solve(
            within + 0.01 * np.eye(len(X)), (means - means.mean(axis=0)).T
        )
        self.source = discriminant_projection(X, self.directions, self.gamma)
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        return self.kernel(X) @ self.directions


class InterpolatorTwin(_Twin):
    """SciPy's interpolator, called."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> InterpolatorTwin:
        self.source = RBFInterpolator(
            X, y, kernel="gaussian", epsilon=np.sqrt(self.gamma), smoothing=0.1, degree=1
        )
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.source(X)


class DensityTwin(_Twin):
    """SciPy's kernel density, asked for logarithms of rows."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> DensityTwin:
        self.source = gaussian_kde(X.T)
        return self

    def score_samples(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.source.logpdf(X.T))


class ProcessTwin(_Twin):
    """GPyTorch's exact process, in doubles and without training: any hyperparameters will do."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> ProcessTwin:
        import gpytorch
        import torch

        class Model(gpytorch.models.ExactGP):
            def __init__(self) -> None:
                likelihood = gpytorch.likelihoods.GaussianLikelihood()
                super().__init__(torch.tensor(X), torch.tensor(np.float64(y)), likelihood)
                self.mean_module = gpytorch.means.ConstantMean()
                self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

            def forward(self, x: Any) -> Any:
                where = gpytorch.distributions.MultivariateNormal
                return where(self.mean_module(x), self.covar_module(x))

        model = Model().double()
        model.covar_module.base_kernel.lengthscale = 12.0
        model.covar_module.outputscale = 2.0
        model.likelihood.noise = 0.1
        self.source = model.eval()
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        import gpytorch
        import torch

        exactly = gpytorch.settings.fast_computations(False, False, False)
        with torch.no_grad(), exactly, gpytorch.settings.skip_posterior_variances():
            return np.asarray(self.source(torch.tensor(X)).mean.numpy())


class SeriesMeansTwin(_Twin):
    """tslearn's kernel k-means on rows as series."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> SeriesMeansTwin:
        from tslearn.clustering import KernelKMeans

        self.source = KernelKMeans(
            3, kernel="rbf", kernel_params={"gamma": self.gamma}, random_state=0
        ).fit(X[:, :, None])
        self.classes_ = np.arange(3)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.source.predict(X[:, :, None]))
