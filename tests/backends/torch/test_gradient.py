"""Scores of a torch module have the derivatives of the exact model."""

from __future__ import annotations

import numpy as np
import pytest

import kernelite as kl

torch = pytest.importorskip("torch", reason="torch is not installed")
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def models() -> dict[str, object]:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, SVR

    return {
        "svc": SVC(gamma=0.05),
        "pairs": SVC(gamma=0.05, decision_function_shape="ovo"),
        "svr behind a scaler": make_pipeline(StandardScaler(), SVR()),
        "quadratic": SVC(kernel="poly", degree=2, coef0=1.0),
    }


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", models())
def test_scores_have_the_derivatives_of_the_exact_model(name: str, device: str) -> None:
    from kernelite.torch import module

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3] if name == "pairs" else [0.0])
    fast = kl.compile(models()[name].fit(X, y), X)  # type: ignore[attr-defined]
    program = module(fast).to(device)
    rows = torch.from_numpy(X[:20].copy()).to(device).requires_grad_()
    scores = program(rows).scores
    weights = torch.from_numpy(rng.normal(size=tuple(scores.shape))).to(device)
    (scores * weights).sum().backward()
    true = fast.gradient(X[:20]).reshape(20, scores.shape[1], -1)
    want = np.einsum("mk,mkd->md", weights.cpu().numpy(), true)
    assert np.allclose(rows.grad.cpu().numpy(), want, atol=1e-9)


def test_rows_that_require_nothing_get_plain_scores() -> None:
    from sklearn.svm import SVC

    from kernelite.torch import module

    X = np.random.default_rng(0).normal(size=(50, 3))
    program = module(kl.compile(SVC().fit(X, X[:, 0] > 0), X))
    assert not program(torch.from_numpy(X)).scores.requires_grad
