"""
Bayesian optimisation with exact gradients
==========================================

Bayesian optimisation maximises an acquisition function of a Gaussian process, again and again.
SciPy takes differences where it is given no gradients; compiled models have them.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern, WhiteKernel

import kernelite as kl


def costly(X):
    """What is to be minimised: three columns, each with a valley of its own."""
    return np.sin(3.0 * X).sum(axis=1) + np.square(X - 0.3).sum(axis=1)


rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (200, 3))
kernel = 2.0 * Matern(1.0, nu=2.5) + WhiteKernel(1e-4)
model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0).fit(X, costly(X))
fast = kl.compile(model, X, guarantee="exact")

# %%
# The lower confidence bound, mean - 2 std, and its gradient: one call each.


def with_gradients(z):
    """Value and gradient, as `minimize(jac=True)` takes them."""
    row = z[None]
    mean, slope = fast.gradient(row, return_value=True)
    std, spread = fast.gradient(row, of="std", return_value=True)
    return mean[0] - 2.0 * std[0], slope[0] - 2.0 * spread[0]


def by_differences(z):
    """The value alone, from scikit-learn's own model."""
    mean, std = model.predict(z[None], return_std=True)
    return mean[0] - 2.0 * std[0]


# %%
# From the same ten starts, both find the same optimum.

starts, box = rng.uniform(-2, 2, (10, 3)), [(-2.0, 2.0)] * 3
results = {}
for name, function, jac in (
    ("scikit-learn, by differences", by_differences, None),
    ("compiled, exact gradients", with_gradients, True),
):
    began = perf_counter()
    runs = [minimize(function, s, jac=jac, method="L-BFGS-B", bounds=box) for s in starts]
    best = min(runs, key=lambda run: run.fun)
    seconds = perf_counter() - began
    results[name] = seconds, sum(run.nfev for run in runs)
    print(f"{name}: {best.fun:.6f} at {best.x.round(4)}, {results[name][1]} calls")

# %%
# Time depends on the machine; the calls do not.

figure, axes = plt.subplots(figsize=(7.2, 2.2))
axes.barh(list(results), [1e3 * seconds for seconds, _ in results.values()], color="#1f5fa8")
axes.set(xlabel="milliseconds for ten starts")
figure.tight_layout()
plt.show()
