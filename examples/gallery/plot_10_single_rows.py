"""
One row per call
================

What a server does: one row arrives, one label goes back. Here is the distribution of times of a
thousand calls.
"""

from time import perf_counter_ns

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.svm import SVC

import kernelite as kl

X, y = make_classification(6000, n_features=20, n_informative=12, flip_y=0.1, random_state=0)
X = (X - X.mean(axis=0)) / X.std(axis=0)
svc = SVC(gamma=0.004, C=5).fit(X[:4000], y[:4000])
fast = kl.compile(svc, X[:4000])
print(f"{len(svc.support_):,} support vectors; {fast.plan.summary}")


# %%
# A float64 array of shape (1, d) takes a path without repeated validation.


def latencies(predict, calls=1000):
    rows = np.ascontiguousarray(X[4000 : 4000 + calls])
    for row in rows[:20]:
        predict(row[None])
    found = np.empty(calls)
    for i, row in enumerate(rows):
        start = perf_counter_ns()
        predict(row[None])
        found[i] = (perf_counter_ns() - start) / 1000
    return found


times = {"scikit-learn": latencies(svc.predict), "kernelite": latencies(fast.predict)}
for name, found in times.items():
    half, most = np.percentile(found, [50, 99])
    print(f"{name:13} median {half:6.1f} us, 99th percentile {most:6.1f} us")

# %%
figure, axes = plt.subplots(figsize=(7.2, 3.6))
bins = np.geomspace(min(f.min() for f in times.values()), 3000, 80)
for (name, found), color in zip(times.items(), ["gray", "#1f5fa8"]):
    axes.hist(found, bins=bins, color=color, alpha=0.8, label=name)
axes.set(xscale="log", xlabel="microseconds per call", ylabel="calls")
axes.legend()
plt.show()
