"""
Ranking anomalies
=================

A one-class machine ranks rows by how unusual they are. A ranking needs scores, not only labels:
each is proven to be within a thousandth of their spread on the sample, or within ``tolerance``.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.svm import OneClassSVM

import kernelite as kl

images, labels = load_digits(return_X_y=True)
images = images / 16
usual, unusual = images[labels != 4], images[labels == 4]
machine = OneClassSVM(gamma=0.02, nu=0.1).fit(usual[:1000])
rows = np.vstack([usual[1000:], unusual])
truth = np.r_[np.zeros(len(usual) - 1000), np.ones(len(unusual))]

# %%
# Labels are proven as well: the sign of every score is the exact model's.

fast = kl.compile(machine, usual)
scores, exact = fast.decision_function(rows), machine.decision_function(rows)
print(f"largest difference of scores: {np.abs(scores - exact).max():.2g}", end=", ")
print(f"proven to be at most {fast.error_bound(rows).max():.2g}")
print(f"area under the curve: {roc_auc_score(truth, -scores):.5f}", end=", ")
print(f"scikit-learn's {roc_auc_score(truth, -exact):.5f}")

# %%
# The rows that the machine finds least like what it was trained on.

order = np.argsort(scores)[:10]
figure, axes = plt.subplots(1, 10, figsize=(9, 1.5))
for spot, row in zip(axes, order):
    spot.imshow(rows[row].reshape(8, 8), cmap="Greys")
    spot.set(xticks=[], yticks=[], title=f"{scores[row]:.2f}")
plt.show()
