"""What a report is made of, against the model's own answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import kernelite
from kernelite.machine.heads import ClassifierHead
from kernelite.model.report.measure import (
    MOST,
    MOST_COMPARED_ROWS,
    compare,
    margins_of,
    measure,
    nearest_rows,
)
from kernelite.support.errors import InputError
from tests.model.export.cases import CASES, FEATURES
from tests.store.models import HEADS, compiled


def rows(m: int = 80) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(m, FEATURES))


MEASURED = [
    "certified, binary",
    "certified, three",
    "certified, regressor",
    "certified, spectral, three",
    "certified, outlier",
    "calibrated, three",
    "form, three",
    "exact, outputs",
]


@pytest.mark.parametrize("name", MEASURED)
def test_measured_is_what_the_model_answers(name: str) -> None:
    model, X = CASES[name], rows()
    measured = measure(model, X)
    np.testing.assert_array_equal(measured.served, model.scores(X, on_invalid="ignore"))
    stats = model.predict(X, return_stats=True, on_invalid="ignore")[1]
    second = sum(stats.stages.get(name, 0) for name in ("full form", "third order"))
    counts = [stats.early - second, second, stats.exact]
    assert np.bincount(measured.tier, minlength=3).tolist() == counts
    if model.expansion is None:
        assert measured.exact is None
        assert measured.differ is None
        assert measured.timed.exact is None
    else:
        np.testing.assert_allclose(measured.exact, model.expansion.scores(X), rtol=1e-9)
        assert measured.timed.speed_up > 0
    if model.guarantee == "certified":
        assert (measured.errors() <= measured.bounds).all()
        assert not measured.differ
    assert sum(measured.share(i) for i in range(3)) == pytest.approx(1.0)


def test_many_rows_are_thinned_evenly() -> None:
    model, X = CASES["form, integers"], rows(2 * MOST_COMPARED_ROWS + 1)
    measured = measure(model, X)
    assert measured.rows == MOST_COMPARED_ROWS
    assert measured.given == len(X)
    assert measured.chosen[[0, -1]].tolist() == [0, len(X) - 1]
    want = model.scores(X[measured.chosen], on_invalid="ignore")
    np.testing.assert_array_equal(measured.served, want)


def test_an_exact_model_beside_a_form() -> None:
    exact = compiled(HEADS["integers"], exact=True)
    form = compiled(HEADS["integers"])
    measured = measure(form, rows(), exact=exact)
    want = exact.predict(rows()) != form.predict(rows(), on_invalid="ignore")
    assert measured.differ == int(want.sum())
    assert measured.timed.exact is not None


@pytest.mark.parametrize("name", [n for n in MEASURED if n.startswith(("cert", "cali"))])
def test_the_nearest_rows_have_the_least_room(name: str) -> None:
    model = CASES[name]
    measured = measure(model, rows(400))
    _, near = nearest_rows(model, measured)
    assert 0 < len(near) <= MOST
    assert [row.room for row in near] == sorted(row.room for row in near)
    # One-vs-one rows may be decided though a pair is open, so their room may be below 1.
    votes = isinstance(model.head, ClassifierHead) and model.head.n_classes > 2
    assert votes or near[0].room > 1.0
    for row in near:
        i = row.number - 1
        assert row.tier == "form"
        assert str(np.asarray(model.predict(rows(400)[i : i + 1]))[0])[:4] in (
            row.answer[:4],
            str(row.score)[:4],
        )


def test_nothing_to_say_about_an_exact_plan() -> None:
    model = compiled(HEADS["outputs"], exact=True)
    measured = measure(model, rows())
    assert nearest_rows(model, measured) == ("", [])
    assert margins_of(model, measured.served) is None


def test_bad_arguments() -> None:
    with pytest.raises(InputError, match="no rows"):
        measure(CASES["form, integers"], np.zeros((0, FEATURES)))
    exact = compiled(exact=True)
    from kernelite.model import ModelPart

    parts = (ModelPart(exact, np.array([0])),)
    several = replace(exact, expansion=None, parts=parts)
    with pytest.raises(InputError, match="made of several"):
        measure(several, rows())


def test_frames_and_lists_are_rows_too() -> None:
    pandas = pytest.importorskip("pandas")
    model = kernelite.compile(CASES["exact, outputs"].expansion, guarantee="exact")
    frame = pandas.DataFrame(rows(7000))
    assert measure(model, frame).rows == MOST_COMPARED_ROWS
    assert measure(model, rows(5).tolist()).rows == 5


def test_the_original_is_another_model() -> None:
    """What differs is counted, and what cannot be compared is said."""
    from sklearn.svm import SVC

    X = rows(200)
    svc = SVC(gamma=0.1).fit(X, X[:, 0] > 0)
    other = SVC(gamma=0.1).fit(X, X[:, 1] > 0)
    fast = kernelite.compile(svc, X)
    assert compare(fast, svc, X).differ == 0
    found = compare(fast, other, X)
    assert found.differ == int((svc.predict(X) != other.predict(X)).sum()) > 0
    assert (found.name, found.rows, found.largest) == ("SVC", 200, None)
    with pytest.raises(InputError, match="the model that was compiled"):
        compare(fast, object(), X)
    with pytest.raises(InputError, match="answers have shape"):
        compare(fast, lambda some: np.zeros((len(some), 2)), X)
