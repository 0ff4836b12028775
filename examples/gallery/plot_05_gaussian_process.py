"""
Regression with a standard deviation
====================================

A Gaussian process, compiled: means within a proven tolerance, standard deviations exact.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import kernelite as kl

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(-4, 4, 400))[:, None]
y = np.sin(X[:, 0]) + 0.3 * X[:, 0] + rng.normal(scale=0.25, size=400)
process = GaussianProcessRegressor(RBF(2.0) + WhiteKernel(0.06), optimizer=None).fit(X, y)

fast = kl.compile(process, X)
print(fast.plan.summary)
print(f"tolerance {fast.tolerance[0]:.2g}")

# %%
# ``predict(X, return_std=True)`` as in scikit-learn.

rows = np.linspace(-5, 5, 500)[:, None]
mean, std = fast.predict(rows, return_std=True)
exact, exact_std = process.predict(rows, return_std=True)
print(f"largest difference of means {np.abs(mean - exact).max():.2g}")
print(f"largest difference of standard deviations {np.abs(std - exact_std).max():.2g}")

# %%
figure, (top, bottom) = plt.subplots(
    2, 1, sharex=True, figsize=(7.2, 5.4), gridspec_kw={"height_ratios": [3, 1]}
)
top.plot(X, y, ".", ms=3, color="gray")
top.plot(rows, mean, color="#1f5fa8", label="compiled mean")
top.fill_between(
    rows[:, 0], mean - 2 * std, mean + 2 * std, color="#bcd6f2", label="two deviations"
)
top.legend()
bottom.plot(rows, mean - exact, color="#c46200")
for sign in (-1, 1):
    bottom.axhline(sign * fast.tolerance[0], color="black", lw=0.8, ls="--")
bottom.set(ylabel="difference", title="compiled - exact, and the tolerance (dashed)")
plt.show()
