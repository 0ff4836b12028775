"""
Data frames with text columns
=============================

A pipeline that encodes texts and scales numbers, compiled: frames are read column by column, the
encoder becomes a table of codes, and both are stored with the machine. Needs pandas.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

import kernelite as kl

rng = np.random.default_rng(0)
count = 20_000
frame = pd.DataFrame(
    {
        "age": rng.integers(18, 80, count),
        "income": rng.lognormal(10, 0.5, count),
        "region": rng.choice(["north", "south", "east", "west"], count),
        "plan": rng.choice(["basic", "plus"], count),
    }
)
worth = frame["age"] / 40 + np.log(frame["income"]) / 5 + (frame["region"] == "north")
churn = np.where(worth + rng.normal(0, 0.3, count) > 3.5, "stays", "leaves")

encoder = make_column_transformer(
    (OneHotEncoder(), ["region", "plan"]), (StandardScaler(), ["age", "income"])
)
machine = make_pipeline(encoder, SVC(gamma=0.05, C=3)).fit(frame[:4000], churn[:4000])
fast = kl.compile(machine, frame[:4000])
print(fast.plan.summary)

# %%
# Both take the frame itself. The compiled one can be saved, and knows what to do with a region that
# it has never seen: the same as scikit-learn.

times = {}
for name, model in {"scikit-learn": machine, "kernelite": fast}.items():
    model.predict(frame[:500])
    start = perf_counter()
    answers = model.predict(frame)
    times[name] = 1e6 * (perf_counter() - start) / count
print("same labels:", (answers == machine.predict(frame)).all())

# %%
figure, axes = plt.subplots(figsize=(7.2, 2.2))
axes.barh(list(times), list(times.values()), color=["gray", "#1f5fa8"], log=True)
axes.set_xlabel("microseconds per row, encoding included (logarithmic)")
axes.bar_label(axes.containers[0], fmt="%.3g", padding=4)
plt.show()
