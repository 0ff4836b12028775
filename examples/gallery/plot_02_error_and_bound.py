"""
Error and bound
===============

How far the form's score is from the exact one, and how far it can be at most: the bound is proven,
and no point lies above it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import kernelite as kl

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)
svc = SVC(gamma=0.005, C=10).fit(X, y)

form = kl.compile(svc, X, guarantee="none", certificate=True, on_invalid="ignore")
error = np.abs(form.decision_function(X) - svc.decision_function(X))
bound = form.error_bound(X)
print(f"largest error / bound: {(error / bound).max():.2f}")

# %%
# The bound depends on the row only by its distance from the expansion point, so it costs next to
# nothing. Errors of most rows are much smaller.

distance = np.linalg.norm(X - X.mean(axis=0), axis=1)
order = np.argsort(distance)
figure, axes = plt.subplots()
axes.semilogy(distance[order], bound[order], color="#c46200", label="proven bound")
axes.semilogy(distance, error, ".", ms=4, color="#1f5fa8", label="error of the form's score")
axes.set(xlabel="distance from the expansion point", ylabel="score units")
axes.legend(loc="lower right")
plt.show()

# %%
# A label is proven where the score itself is larger than the bound.

proven = np.abs(form.decision_function(X)) > bound
print(f"proven by the form alone: {proven.mean():.1%} of rows")
