"""
Parquet files, and Dask
=======================

A folder of Parquet files is scored where it lies: streamed by one process, or by Dask's workers.
Needs the extras ``arrow`` and ``dask``.
"""

import tempfile
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_iris
from sklearn.svm import SVC

import kernelite as kl

absent = [name for name in ("pyarrow", "dask", "distributed") if find_spec(name) is None]
print(f"not installed, so nothing is scored: {absent}" if absent else "all there")

iris = load_iris(as_frame=True)
fast = kl.compile(SVC(gamma=0.02, C=10).fit(iris.data, iris.target), iris.data)
folder = tempfile.TemporaryDirectory()
flowers, found = Path(folder.name, "flowers"), None

# %%
# One process: batch by batch, in memory that does not grow with the files.

if not absent:
    flowers.mkdir()
    for part in range(3):
        rows = iris.data[50 * part : 50 * (part + 1)]
        rows.assign(flower=rows.index).to_parquet(flowers / f"part-{part}.parquet", index=False)
    done = kl.predict_files(
        fast, flowers, Path(folder.name, "species"), keep=["flower"], outputs=["label", "decided"]
    )
    print([f"{Path(file.destination).name}: {file.rows} rows" for file in done.files])

# %%
# Dask: a frame in, a frame out, computed when it is asked for. The model travels once to each
# worker; here all of them are threads of this process.

if not absent:
    import dask.dataframe as dd

    import kernelite.dask

    frame = dd.read_parquet(flowers)
    scored = kernelite.dask.predict(fast, frame, outputs=["label", "score"], keep=["flower"])
    found = scored.compute(scheduler="threads").set_index("flower").sort_index()
    print(found.head(3))
    print("right:", (found["label"] == iris.target).mean())
folder.cleanup()

# %%
if found is not None:
    counts = pd.crosstab(iris.target_names[iris.target], iris.target_names[found["label"]])
    figure, axes = plt.subplots(figsize=(4.6, 3.8))
    axes.imshow(counts, cmap="Blues")
    for i in range(3):
        for j in range(3):
            shade = "white" if counts.iloc[i, j] > 25 else "black"
            axes.text(j, i, counts.iloc[i, j], ha="center", va="center", color=shade)
    axes.set_xticks(range(3), counts.columns)
    axes.set_yticks(range(3), counts.index)
    axes.set(xlabel="scored", ylabel="true")
    plt.show()
