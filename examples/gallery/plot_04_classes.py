"""
Several classes
===============

With several classes, scikit-learn lets every pair of classes vote. The winner is proven for every
sign that open pairs could take, so most rows need no exact evaluation even where a pair is open.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.datasets import make_blobs
from sklearn.svm import SVC

import kernelite as kl

X, y = make_blobs(900, centers=5, cluster_std=1.1, center_box=(-5, 5), random_state=4)
svc = SVC(gamma=0.01, C=50).fit(X, y)
fast = kl.compile(svc, X)
print(fast.plan.summary)

# %%
# ``decided`` tells row by row whether a label is proven, by whatever stage. Here the form's own
# bound is asked, pair by pair.

across, up = np.meshgrid(np.linspace(-8, 8, 260), np.linspace(-8, 8, 260))
grid = np.column_stack([across.ravel(), up.ravel()])
form = kl.compile(svc, X, guarantee="none", certificate=True, rank="full", on_invalid="ignore")
bounds = form.score_bound(grid)
labels = fast.predict(grid)
print(f"{bounds.shape[1]} pairs of {len(svc.classes_)} classes")

# %%
# The bound of the widest pair, and the regions of the labels.

colors = ["#1f5fa8", "#c46200", "#2e8b57", "#8a4fbf", "#7a6a00"]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2))
left.imshow(
    labels.reshape(across.shape),
    origin="lower",
    extent=(-8, 8, -8, 8),
    cmap=ListedColormap(colors),
    alpha=0.35,
)
left.scatter(*X.T, s=6, c=[colors[label] for label in y])
left.set_title("labels, all proven or exact")
shown = right.imshow(
    np.log10(bounds.max(axis=1)).reshape(across.shape), origin="lower", extent=(-8, 8, -8, 8)
)
right.set_title("largest bound of a pair (log10)")
figure.colorbar(shown, ax=right, shrink=0.8)
for axes in (left, right):
    axes.set(xticks=[], yticks=[])
plt.show()

# %%
same = (labels == svc.predict(grid)).all()
print(f"{len(grid):,} rows; same labels as scikit-learn: {same}")
