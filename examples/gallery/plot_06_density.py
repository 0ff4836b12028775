"""
A kernel density
================

Log densities within the estimator's own ``rtol``, proven.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import logsumexp
from sklearn.neighbors import KernelDensity

import kernelite as kl

rng = np.random.default_rng(1)
turn = rng.uniform(0, 3 * np.pi, 4000)
X = np.column_stack([turn * np.cos(turn), turn * np.sin(turn)]) / 3 + rng.normal(0, 0.15, (4000, 2))
density = KernelDensity(bandwidth=0.25, rtol=1e-3).fit(X)
fast = kl.compile(density, X)
print(fast.plan.summary)

# %%
across, up = np.meshgrid(np.linspace(-3.6, 3.6, 120), np.linspace(-3.6, 3.6, 120))
grid = np.column_stack([across.ravel(), up.ravel()])
values = fast.score_samples(grid)

# %%
# Compared with the sum itself, in double precision. (Far from all data, scikit-learn's own log
# densities lose digits, so they are no reference there.)

squares = ((grid[::37, None] - X) ** 2).sum(axis=-1)
exact = logsumexp(-squares / (2 * 0.25**2), axis=1) - np.log(len(X) * 2 * np.pi * 0.25**2)
print(f"largest difference of log densities: {np.abs(values[::37] - exact).max():.2g}")

# %%
figure, axes = plt.subplots(figsize=(5.4, 4.8))
levels = axes.contourf(across, up, np.exp(values).reshape(across.shape), levels=14, cmap="Blues")
axes.plot(*X[::8].T, ".", ms=1.5, color="#c46200")
axes.set(xticks=[], yticks=[], title="density of 4,000 rows")
figure.colorbar(levels, ax=axes, shrink=0.8)
plt.show()
