"""Predict a folder of Parquet files: labels beside an id, and whether each label is proven."""

import tempfile
from pathlib import Path

import pandas as pd
from pyarrow import parquet
from sklearn.datasets import load_iris
from sklearn.svm import SVC

import kernelite as kl

iris = load_iris(as_frame=True)
fast = kl.compile(SVC(gamma=0.02, C=10).fit(iris.data, iris.target), iris.data)

with tempfile.TemporaryDirectory() as folder:
    rows, labels = Path(folder, "rows"), Path(folder, "labels")
    rows.mkdir()
    for part in range(3):  # columns may be in any order, and there may be others
        frame = iris.data.iloc[50 * part : 50 * (part + 1), ::-1]
        frame.assign(flower=frame.index).to_parquet(rows / f"part-{part}.parquet", index=False)

    # Streamed, so a file may be larger than memory; each output appears when it is finished.
    done = kl.predict_files(fast, rows, labels, keep=["flower"], outputs=["label", "decided"])
    for file in done.files:
        print(Path(file.destination).name, f"{file.rows} rows")
    found = pd.concat(parquet.read_table(path).to_pandas() for path in sorted(labels.iterdir()))

print(found.head(3).to_string(index=False))
print(f"proven: {found['decided'].sum()} of {len(found)}")
print(f"right: {(found['label'].to_numpy() == iris.target[found['flower']].to_numpy()).sum()}")
