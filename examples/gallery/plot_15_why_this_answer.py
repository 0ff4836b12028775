"""
Why this answer: exact Shapley values
=====================================

A support vector machine on a table of measurements and one column of text. How much does each
column account for in a row's score, and how firm is its label?
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

import kernelite as kl

rng = np.random.default_rng(0)
m = 800
table = pd.DataFrame(
    {
        "age": rng.uniform(20, 75, m),
        "income": rng.lognormal(10, 0.5, m),
        "rooms": rng.integers(1, 7, m),
        "city": rng.choice(["Lima", "Oslo", "Rome"], m),
    }
)
worth = np.sin(table["age"] / 12) + (table["city"] == "Oslo") + np.log(table["income"] / 25_000)
bought = np.where(worth + rng.normal(0, 0.4, m) > 0.5, "yes", "no")

encoder = make_column_transformer(
    (StandardScaler(), ["age", "income", "rooms"]), (OneHotEncoder(), ["city"])
)
svc = make_pipeline(encoder, SVC(gamma=0.3)).fit(table, bought)
fast = kl.compile(svc, table)

# %%
# Rows are compared with a hundred others. Players are the columns as they were passed, so the three
# features that the encoder makes of ``city`` are one. Base value and values add up to the score.

background = table.sample(100, random_state=1)
found = fast.shap_values(table, background)
total = found.base_values + found.values.sum(axis=1)
print(
    "largest difference from decision_function:", np.abs(total - svc.decision_function(table)).max()
)
print("largest proven error of a value:", found.bounds.max())

# %%
# One row, column by column.

row = 3
order = np.argsort(np.abs(found.values[row]))
names = [f"{name} = {table[name][row]}" for name in np.array(found.feature_names)[order]]
figure, axes = plt.subplots(figsize=(7.2, 3.0))
shares = found.values[row][order]
axes.barh(names, shares, color=np.where(shares > 0, "#b35900", "#1f5fa8"))
axes.axvline(0.0, color="black", linewidth=0.8)
axes.set(title=f"score {total[row]:.2f}, on average {found.base_values[row]:.2f}", xlabel="share")
figure.tight_layout()
plt.show()

# %%
# All rows: what the model made of ages.

figure, axes = plt.subplots(figsize=(7.2, 3.6))
age = found.feature_names.index("age")
axes.scatter(table["age"], found.values[:, age], s=8, color="#1f5fa8")
axes.set(xlabel="age", ylabel="share of the score", title="the model found the wave")
figure.tight_layout()
plt.show()

# %%
# How firm the labels are: a distance, in units of the scaled columns, within which none changes. It
# is asked of the last step, since a text has no distance.

last = kl.compile(svc[-1], svc[:-1].transform(table))
radii = last.radius(svc[:-1].transform(table))
print(
    "labels hold for a distance of", np.quantile(radii, [0.1, 0.5, 0.9]).round(3), "(10, 50, 90%)"
)
