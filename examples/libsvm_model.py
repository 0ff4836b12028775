"""Compile a LIBSVM model file: the paper's form, with and without its validity respected.

The command line does the same:

    kernelite compile examples/iris.model -o iris.kernelite --guarantee none
    kernelite predict iris.svm iris.kernelite labels.txt
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris

import kernelite as kl

model = Path(__file__).with_name("iris.model")
X, y = load_iris(return_X_y=True)

exact = kl.compile(model, guarantee="exact")  # what svm-predict computes
for point in ("origin", "mean"):
    paper = kl.compile(model, X, guarantee="none", expansion_point=point)
    outside = np.count_nonzero(~paper.valid(X))
    differ = np.count_nonzero(paper.predict(X, on_invalid="ignore") != exact.predict(X))
    print(
        f"about the {point}: {outside} of {len(X)} rows outside the bound, {differ} labels differ"
    )

print("probabilities of the first flower:", exact.predict_proba(X[:1]).round(3))
