"""
Digits as pictures: which pixels, and how far
=============================================

Which pixels make a support vector machine read a 3 rather than an 8, and how much may all pixels
change together before it reads something else?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

import kernelite as kl

X, y = load_digits(return_X_y=True)
X = X / 16.0
svc = SVC(gamma=0.05, C=10, decision_function_shape="ovo").fit(X[:1200], y[:1200])
fast = kl.compile(svc, X[:1200])

# %%
# There is a score for each pair of digits. The one of 3 and 8 is positive where it reads 3.

threes = np.flatnonzero(y[1200:] == 3)[:4] + 1200
found = fast.shap_values(X[threes], X[:50])
pair = "3 rather than 8"
place = list(found.output_names).index(pair)
values = found.values[:, :, place]

figure, axes = plt.subplots(2, 4, figsize=(7.2, 3.9))
most = np.abs(values).max()
for column, number in enumerate(threes):
    axes[0, column].imshow(X[number].reshape(8, 8), cmap="gray_r")
    shown = values[column].reshape(8, 8)
    axes[1, column].imshow(shown, cmap="RdBu_r", vmin=-most, vmax=most)
for box in axes.ravel():
    box.set(xticks=[], yticks=[])
figure.suptitle(f"pixels that speak for {pair} (red) and against it (blue)")
plt.show()

# %%
# The largest change of every single pixel that no label can be lost by, out of a range of 1; and
# the digits whose labels hold least far.

rows = X[1200:1400]
radii = fast.radius(rows, norm="linf")
print("median radius:", np.median(radii).round(4), "of 1")
order = np.argsort(radii)[:4]
figure, axes = plt.subplots(1, 4, figsize=(7.2, 2.2))
for box, number in zip(axes, order):
    box.imshow(rows[number].reshape(8, 8), cmap="gray_r")
    label = fast.predict(rows[number : number + 1])[0]
    box.set(xticks=[], yticks=[], title=f"read as {label}: {radii[number]:.3f}")
figure.suptitle("labels that hold least far")
plt.show()
