"""
Where a label is proven
=======================

The decision boundary of a support vector machine, and how a compiled model comes by its labels:
from a quadratic form, from one more term of the series, or, in a narrow band, from the exact model.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.svm import SVC

import kernelite as kl

X, y = make_moons(600, noise=0.2, random_state=0)
svc = SVC(gamma=0.2, C=10).fit(X, y)
fast = kl.compile(svc, X, plan="quadratic form about the mean of X, cubic")
print(fast.plan.summary)

# %%
# So few support vectors are usually summed up exactly, which is as fast. To see what a form does,
# it was asked for by its name.
#
# Every point of a grid is predicted by itself, so that its statistics tell what decided it.

across, up = np.meshgrid(np.linspace(-1.8, 2.8, 150), np.linspace(-1.3, 1.7, 100))
grid = np.column_stack([across.ravel(), up.ravel()])
seen = [fast.predict(point[None], return_stats=True)[1] for point in grid]
tier = np.array([3 if found.exact else 1 if found.stages.get("form") else 2 for found in seen])
label = fast.predict(grid)

# %%
# Full colour: the form proves the label. Pale: the third order does. White: evaluated exactly. The
# black line is the exact boundary.

colors = {
    (1, 0): "#9fc5ee",
    (2, 0): "#dbe9f8",
    (1, 1): "#f9c68a",
    (2, 1): "#fdebd3",
}
picture = np.ones((*across.shape, 3))
for (which, side), color in colors.items():
    here = ((tier == which) & (label == side)).reshape(across.shape)
    picture[here] = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]

figure, axes = plt.subplots(figsize=(7.2, 4.6))
edges = (across.min(), across.max(), up.min(), up.max())
axes.imshow(picture, origin="lower", extent=edges, aspect="auto")
exact = svc.decision_function(grid).reshape(across.shape)
axes.contour(across, up, exact, levels=[0], colors="black", linewidths=1.4)
for side, color in enumerate(["#1f5fa8", "#b35900"]):
    axes.scatter(*X[y == side].T, s=9, color=color)
axes.set(xticks=[], yticks=[], title="proven by the form, by the third order (pale), exact (white)")
plt.show()

# %%
# The labels are those of the support vector machine, everywhere.

labels, stats = fast.predict(X, return_stats=True)
print(f"rows of X: {stats.early} proven before the exact model was asked, {stats.exact} exactly")
print("labels that differ on the grid:", np.count_nonzero(label != svc.predict(grid)))
