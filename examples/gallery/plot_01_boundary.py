"""
Where a label is proven
=======================

The decision boundary of a support vector machine, and the region in which a quadratic form alone
proves every label. Only rows in the white band are handed to the exact model.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.svm import SVC

import kernelite as kl

X, y = make_moons(600, noise=0.25, random_state=0)
svc = SVC(gamma=0.35, C=10).fit(X, y)

# %%
# The form alone, with its certificate. ``error_bound`` says how far its score can be from the exact
# one: a label is proven where the score is larger than that.

form = kl.compile(svc, X, guarantee="none", certificate=True, on_invalid="ignore")

across, up = np.meshgrid(np.linspace(-1.8, 2.8, 300), np.linspace(-1.4, 1.8, 220))
grid = np.column_stack([across.ravel(), up.ravel()])
score = form.decision_function(grid)
proven = np.abs(score) > form.error_bound(grid)[:, 0]
exact = svc.decision_function(grid)

# %%
# Blue and orange: the form proves the label. The black line is the exact boundary, which lies in
# the band that is left white.

shade = np.where(proven, np.sign(score), 0.0).reshape(across.shape)
figure, axes = plt.subplots(figsize=(7.2, 4.6))
colors = ["#bcd6f2", "white", "#fbd9b0"]
axes.contourf(across, up, shade, levels=[-1.5, -0.5, 0.5, 1.5], colors=colors)
axes.contour(across, up, exact.reshape(across.shape), levels=[0], colors="black", linewidths=1.4)
for label, color in enumerate(["#1f5fa8", "#c46200"]):
    axes.scatter(*X[y == label].T, s=9, color=color)
axes.set(xticks=[], yticks=[])
axes.set_title(f"shaded: label proven by the form ({proven.mean():.0%} of the plane shown)")
plt.show()

# %%
# A certified model does the rest: rows in the band are tried with the third order, then evaluated
# exactly. Its labels are those of the support vector machine, everywhere.

fast = kl.compile(svc, X)
labels, stats = fast.predict(grid, return_stats=True)
print(f"{stats.rows:,} rows, {stats.exact:,} of them evaluated exactly")
print("labels that differ:", np.count_nonzero(labels != svc.predict(grid)))
