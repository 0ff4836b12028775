"""
A C program
===========

A compiled model as a C99 header without any dependency, in a program of a few lines. Needs gcc.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

import kernelite as kl

X, y = load_digits(return_X_y=True)
X = X / 16
svc = SVC(gamma=0.02, C=10).fit(X[:1200], y[:1200])
fast = kl.compile(svc, X[:1200])

folder = Path(tempfile.mkdtemp())
written = fast.export(folder / "digits.h", main=True)
print([Path(file).name for file in written])
print((folder / "digits.h").read_text()[:600])

# %%
# ``main=True`` adds a program that reads rows on stdin and prints their labels.

rows = X[1200:]
text = "\n".join(",".join(map(repr, row)) for row in rows.tolist())
labels = None
if shutil.which("gcc") is None:
    print("there is no gcc here, so nothing is compiled")
else:
    subprocess.run(
        ["gcc", "-std=c99", "-O2", "digits.c", "-o", "digits", "-lm"], cwd=folder, check=True
    )
    ran = subprocess.run(["./digits"], cwd=folder, input=text, capture_output=True, text=True)
    labels = np.array(ran.stdout.split(), dtype=int)
    print(f"{len(labels)} rows; same labels as scikit-learn:", (labels == svc.predict(rows)).all())

# %%
# What the program said of the first images.

if labels is not None:
    figure, axes = plt.subplots(1, 10, figsize=(9, 1.4))
    for spot, image, label in zip(axes, rows, labels):
        spot.imshow(image.reshape(8, 8), cmap="Greys")
        spot.set(xticks=[], yticks=[], title=label)
    plt.show()
shutil.rmtree(folder)
