"""
Gamma against speed
===================

The larger gamma is, the fewer rows a form proves, and the smaller the gain. A larger C often makes
up for a smaller gamma, so that accuracy hardly depends on it.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.svm import SVC

import kernelite as kl

X, y = make_classification(
    10_000, n_features=16, n_informative=10, flip_y=0.08, class_sep=1.2, random_state=0
)
X = (X - X.mean(axis=0)) / X.std(axis=0)
X_train, y_train, X_test, y_test = X[:2000], y[:2000], X[2000:], y[2000:]
limit = kl.gamma_max(X_train, about="mean").value
print(f"gamma_max about the mean: {limit:.4f}; scikit-learn's default here: {1 / 16:.4f}")


# %%
# For each gamma: fit, compile, and time both.


def microseconds(predict, rows):
    predict(rows[:500])  # kernels are compiled when they are first used
    seconds = []
    for _ in range(5):
        start = perf_counter()
        predict(rows)
        seconds.append(perf_counter() - start)
    return 1e6 * min(seconds) / len(rows)


ratios = np.array([0.25, 0.5, 1, 2, 4, 8])
gains, shares, accuracies = [], [], []
for ratio in ratios:
    svc = SVC(gamma=ratio * limit, C=40 / ratio).fit(X_train, y_train)
    fast = kl.compile(svc, X_train)
    labels, stats = fast.predict(X_test, return_stats=True)
    shares.append(1 - stats.exact / stats.rows)
    accuracies.append(np.mean(labels == y_test))
    gains.append(microseconds(svc.predict, X_test[:500]) / microseconds(fast.predict, X_test))
    print(f"{ratio:5} x gamma_max: {gains[-1]:6.0f} times faster, accuracy {accuracies[-1]:.3f}")

# %%
# Even where no row is proven, the exact engine is faster than scikit-learn. The labels are the
# exact model's at every gamma.

figure, (speed, share) = plt.subplots(2, 1, sharex=True, figsize=(7.2, 6))
speed.loglog(ratios, gains, "o-", color="#1f5fa8")
speed.set(ylabel="times faster\nthan scikit-learn", ylim=(1, 10 ** np.ceil(np.log10(max(gains)))))
share.semilogx(ratios, shares, "o-", color="#c46200", label="rows proven without the exact model")
share.semilogx(ratios, accuracies, "s--", color="gray", ms=4, label="accuracy")
share.set(xlabel="gamma / gamma_max", ylim=(-0.03, 1.05), xticks=ratios, xticklabels=ratios)
share.minorticks_off()
share.legend()
plt.show()
