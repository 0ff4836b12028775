"""A model that is loaded and answered where scikit-learn cannot be imported."""

import subprocess
import sys
import tempfile

from sklearn.datasets import load_iris
from sklearn.svm import SVC

import kernelite as kl

X, y = load_iris(return_X_y=True)

ANSWER = """
import sys
sys.modules["sklearn"] = None  # as if it were not installed
import numpy as np
import kernelite as kl

model = kl.load("iris.kernelite")
print("labels:", *model.predict(np.array([[5.1, 3.5, 1.4, 0.2], [6.7, 3.0, 5.2, 2.3]])))
"""

with tempfile.TemporaryDirectory() as folder:
    kl.compile(SVC().fit(X, y), X).save(f"{folder}/iris.kernelite")
    words = [sys.executable, "-c", ANSWER]
    print(subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout)
