"""Search C and gamma with a compiled classifier inside scikit-learn's own tools."""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import kernelite as kl

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)

pipeline = make_pipeline(StandardScaler(), kl.CompiledClassifier(SVC()))
search = GridSearchCV(
    pipeline,
    {
        "compiledclassifier__estimator__C": [1, 10],
        "compiledclassifier__estimator__gamma": [0.001, 0.01],
    },
    cv=3,
).fit(X_train, y_train)

print("best:", search.best_params_)
print(f"cross-validated accuracy {search.best_score_:.4f}")
print(f"test accuracy {search.score(X_test, y_test):.4f}")
print(search.best_estimator_[-1].compiled_.plan)
