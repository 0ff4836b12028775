"""Compile a fitted scikit-learn SVC, compare it with the original, save it and load it again."""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

import kernelite as kl

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0)

# Known before training: up to this gamma every term of the paper's series is within 3.05%.
print(f"gamma_max about the mean: {kl.gamma_max(X_train, about='mean').value:.4f}")

svc = SVC(gamma=0.02, C=10).fit(X_train, y_train)
fast = kl.compile(svc, X_train)  # the training rows serve as a sample of what is to come
print(fast.plan)

labels = fast.predict(X_test)
print(f"accuracy {np.mean(labels == y_test):.4f}, scikit-learn's {svc.score(X_test, y_test):.4f}")
print(f"labels that differ: {np.count_nonzero(labels != svc.predict(X_test))} of {len(X_test)}")

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "digits.kernelite")
    fast.save(path)
    same = (kl.load(path).predict(X_test) == labels).all()
    print(f"saved {path.stat().st_size:,} bytes; same labels: {same}")
