"""A model as one JavaScript module, asked in Node as a page would ask it, without Python."""

import subprocess
import tempfile
from pathlib import Path

from sklearn.datasets import load_iris
from sklearn.svm import SVC

import kernelite as kl

X, y = load_iris(return_X_y=True, as_frame=True)
svc = SVC().fit(X, y)

PAGE = """
import { about, predict, scores } from "./iris.mjs";

const rows = [[5.1, 3.5, 1.4, 0.2], [6.7, 3.0, 5.2, 2.3]];
console.log(about.featureNames.length, "columns, labels:", ...predict(rows));
console.log("a score for each pair of classes:", scores(rows)[0].length);
"""

with tempfile.TemporaryDirectory() as folder:
    kl.compile(svc, X).export(f"{folder}/iris.mjs")
    Path(folder, "page.mjs").write_text(PAGE)
    told = subprocess.run(["node", "page.mjs"], cwd=folder, check=True, stdout=subprocess.PIPE)
print(told.stdout.decode())
