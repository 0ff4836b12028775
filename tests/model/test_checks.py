"""Files whose forms or certificates were changed, with their digests renewed: found or harmless."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import kernelite
from kernelite.cli import main
from kernelite.model.checks import disagreements
from kernelite.store.files import dumps, loads
from kernelite.support.errors import FileFormatError
from tests.model.export.cases import CASES


@pytest.fixture(scope="module")
def honest() -> Any:
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = kernelite.compile(SVC(gamma=0.002).fit(X, y), X)
    assert model.approximation is not None
    return model


def changed(model: Any, **fields: Any) -> Any:
    """A copy whose form has other fields, or another `certificate`."""
    had = model.approximation
    certificate = fields.pop("certificate", had.certificate)
    form = replace(had.form, **fields)
    return replace(model, approximation=replace(had, form=form, certificate=certificate))


def test_a_changed_form_is_refused(honest: Any) -> None:
    form = honest.approximation.form
    for name in ("constant", "linear", "intercept"):
        with pytest.raises(FileFormatError, match="disagrees with the support vectors"):
            loads(dumps(changed(honest, **{name: getattr(form, name) * 1.01 + 0.01})))
    part = "quadratic" if hasattr(form, "quadratic") else "cores"
    # Near its point it may be within its certificate; of many rows some are further away.
    larger = changed(honest, **{part: 10.0 * getattr(form, part)})
    assert any("disagrees" in problem for problem in disagreements(larger, deep=True))


def test_the_negative_of_a_form_is_refused(honest: Any) -> None:
    form = honest.approximation.form
    turned = changed(honest, constant=-form.constant, linear=-form.linear)
    with pytest.raises(FileFormatError, match="changed after it was made"):
        loads(dumps(turned))


def test_a_smaller_certificate_is_found_by_a_deep_check(
    honest: Any, tmp_path: Any, capsys: Any
) -> None:
    short = "the certificate of the form is too small"
    certificate = honest.approximation.certificate
    small = changed(honest, certificate=replace(certificate, rho=certificate.rho * 0.9))
    assert list(disagreements(small, deep=True)) == [
        "the certificate of the form is too small: rho"
    ]
    for model, code, said in ((small, 1, "too small: rho"), (honest, 0, "no defects")):
        model.save(tmp_path / "m.kernelite")
        assert main(["check", str(tmp_path / "m.kernelite"), "--deep"]) == code
        assert said in capsys.readouterr().out
    no_rounding = replace(certificate, rounding=replace(certificate.rounding, sums=0.0))
    found = list(disagreements(changed(honest, certificate=no_rounding), deep=True))
    assert found == [f"{short}: sums"]


def test_deep_is_for_compiled_models(tmp_path: Any) -> None:
    (tmp_path / "rows.csv").write_text("1,2\n")
    assert main(["check", str(tmp_path / "rows.csv"), "--deep"]) == 2


@pytest.mark.parametrize("name", [n for n, m in CASES.items() if m.guarantee == "certified"])
def test_honest_models_agree(name: str) -> None:
    for _ in range(5):
        assert list(disagreements(CASES[name])) == []
    if name != "certified, mapped":  # whose map was put before a certificate that knows of none
        assert list(disagreements(CASES[name], deep=True)) == []


def test_honest_models_of_all_sizes_agree() -> None:
    """Narrow and wide kernels, offsets, large coefficients, one center, polynomials."""
    rng = np.random.default_rng(0)
    for gamma, offset, C in ((1e-6, 0.0, 1e6), (0.5, 1e5, 1.0), (30.0, -3.0, 10.0)):
        X = offset + rng.normal(size=(60, 3))
        y = np.sin(X.sum(axis=1))
        for kernel in ({"gamma": gamma}, {"kernel": "poly", "degree": 2, "gamma": gamma}):
            model = SVR(C=C, max_iter=2000, **kernel).fit(X, y)
            fast = kernelite.compile(model, X, guarantee="none", certificate=True)
            assert fast.approximation is not None
            exact = kernelite.compile(model, X, guarantee="exact")
            whole = replace(fast, expansion=exact.expansion)
            assert list(disagreements(whole, deep=True)) == []
