"""
A grid search with compiled predictions
=======================================

``CompiledClassifier`` fits a machine, compiles it and predicts with the compiled one, so that
scikit-learn's searches take it. The map shows accuracy; the marks tell where a proof pays.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import kernelite as kl

X, y = load_breast_cancer(return_X_y=True)
costs, gammas = [1, 10, 100], [0.001, 0.003, 0.01, 0.03]
search = GridSearchCV(
    make_pipeline(StandardScaler(), kl.CompiledClassifier(SVC())),
    {
        "compiledclassifier__estimator__C": costs,
        "compiledclassifier__estimator__gamma": gammas,
    },
    cv=3,
).fit(X, y)
print(search.best_params_, f"{search.best_score_:.4f}")

# %%
# For each cell, the plan of a machine fitted on all rows.

rows = StandardScaler().fit_transform(X)
served = np.array(
    [
        [kl.compile(SVC(C=C, gamma=g).fit(rows, y), rows).form is not None for g in gammas]
        for C in costs
    ]
)

# %%
accuracy = search.cv_results_["mean_test_score"].reshape(len(costs), len(gammas))
figure, axes = plt.subplots()
shown = axes.imshow(accuracy, cmap="Blues", origin="lower", aspect="auto")
for i, j in np.ndindex(*accuracy.shape):
    text = f"{accuracy[i, j]:.3f}\n{'form' if served[i, j] else 'exact'}"
    dark = accuracy[i, j] > accuracy.mean()
    axes.text(j, i, text, ha="center", va="center", color="white" if dark else "black")
axes.set_xticks(range(len(gammas)), gammas)
axes.set_yticks(range(len(costs)), costs)
axes.set(xlabel="gamma", ylabel="C", title="cross-validated accuracy, and the plan")
plt.show()
