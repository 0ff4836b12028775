"""
Kernel PCA
==========

Transforms are values: every component is within the tolerance of the exact one, proven.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import KernelPCA

import kernelite as kl

X, y = load_digits(return_X_y=True)
X = X / 16
pca = KernelPCA(n_components=2, kernel="rbf", gamma=0.02).fit(X[:1000])
fast = kl.compile(pca, X[:1000])
print(fast.plan.summary)

# %%
found, exact = fast.transform(X), pca.transform(X)
print(f"largest difference {np.abs(found - exact).max():.2g}, tolerance {fast.tolerance.max():.2g}")

# %%
figure, axes = plt.subplots(figsize=(6.4, 4.6))
points = axes.scatter(*found.T, c=y, s=7, cmap="tab10")
axes.set(xlabel="first component", ylabel="second component")
axes.legend(*points.legend_elements(), ncol=2, loc="upper right", handletextpad=0.1, fontsize=8)
plt.show()
