"""C headers, compiled without a warning by gcc and clang, against the models they came from."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import VotingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.svm import SVC

import kernelite as kl
from kernelite.backends.c import to_c, to_c_program
from kernelite.backends.c.formulas import Writer
from kernelite.backends.c.machine import Functions, label_rule
from kernelite.backends.cpu.approximation import ApproximationEngine
from kernelite.machine.heads import ArgmaxHead, ClassifierHead, OutlierHead
from kernelite.model import CompiledModel
from kernelite.model.export import export
from kernelite.support.errors import InputError, UnsupportedModelError
from tests.helpers import scores_and_bounds
from tests.machine.heads.table import HEADS as ALL_HEADS
from tests.model.export.cases import (
    CASES,
    FEATURES,
    certified_with,
    constant_bytes,
    far_away,
    random_rows,
    same_scores,
    usable_rows,
)
from tests.store.models import compiled

FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1")
COMPILERS = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed"),
    )
    for name in ("gcc", "clang")
]
gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def build(model: CompiledModel, folder: Path, compiler: str = "gcc", **options: Any) -> Path:
    """The program of `--main`, compiled."""
    export(model, folder / "m.h", main=True, **options)
    return compiled_c(folder, "m", compiler)


def compiled_c(folder: Path, name: str, compiler: str = "gcc") -> Path:
    """The program of a file in that folder."""
    program = folder / name
    command = [compiler, *FLAGS, str(folder / f"{name}.c"), "-o", str(program), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


def feed(program: Path, text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program], input=text, capture_output=True, text=True, check=False)


def answers(program: Path, rows: np.ndarray) -> list[list[str]]:
    text = "".join(" ".join(repr(float(v)) for v in row) + "\n" for row in rows)
    done = feed(program, text)
    assert done.returncode == 0, done.stderr
    return [line.split(" ") for line in done.stdout.splitlines()]


def told(label: Any) -> str:
    """A label as the program prints it."""
    if isinstance(label, bool | np.bool_):
        return str(int(label))
    return f"{label:.17g}" if isinstance(label, float) else str(label)


@gcc
@pytest.mark.parametrize("name", CASES)
def test_the_program_answers_as_the_model(name: str, tmp_path: Path) -> None:
    model = CASES[name]
    rows = usable_rows(model)
    got = answers(build(model, tmp_path), rows)
    scores = model.scores(rows, on_invalid="ignore")
    want = model.head.predict(scores)
    if model.head.kind in ("classifier", "outlier"):
        assert [row[0] for row in got] == [told(label) for label in want.tolist()]
    elif model.guarantee == "certified":
        assert np.abs(np.array(got, dtype=float) - scores).max() <= 2 * model.tolerance.max()
    else:
        same_scores(np.array(got, dtype=float), scores)


@gcc
@pytest.mark.parametrize("name", ["form, outputs", "exact, outputs"])
def test_the_program_knows_the_second_word_of_a_shift(name: str, tmp_path: Path) -> None:
    model, rows = far_away(CASES[name])
    got = np.array(answers(build(model, tmp_path), rows), dtype=float)
    same_scores(got, model.scores(rows, on_invalid="ignore"))


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("options", [{}, {"part": "exact"}, {"part": "approximation"}])
@pytest.mark.parametrize(
    "name", ["certified, three", "certified, spectral, three", "certified, third on directions"]
)
def test_no_compiler_warns(name: str, options: Any, compiler: str, tmp_path: Path) -> None:
    model, rows = CASES[name], random_rows()
    got = answers(build(model, tmp_path, compiler, **options), rows)
    scores = model.expansion.scores(rows)
    if options.get("part") == "approximation":
        assert len(got) == len(rows)
    else:
        assert [row[0] for row in got] == [told(v) for v in model.head.predict(scores).tolist()]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_no_compiler_misses_the_number_of_a_row_of_one(compiler: str, tmp_path: Path) -> None:
    """With one feature and two parts, gcc did not see that a row is read before it is used."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 1)), np.arange(60) % 5
    both = VotingClassifier([("narrow", SVC(gamma=2.0)), ("wide", SVC(gamma=1.0))]).fit(X, y)
    fast = kl.compile(both, X, guarantee="exact")
    got = answers(build(fast, tmp_path, compiler), X)
    assert [row[0] for row in got] == [told(label) for label in fast.predict(X).tolist()]


PROVABLE = [
    name
    for name in CASES
    if CASES[name].approximation is not None and CASES[name].approximation.certified
]


@gcc
@pytest.mark.parametrize("name", PROVABLE)
def test_decided_rows_have_the_exact_models_answer(name: str, tmp_path: Path) -> None:
    model, rows = CASES[name], random_rows(m=200)
    got = answers(build(model, tmp_path, part="approximation", decided=True), rows)
    decided = np.array([row[-1] == "1" for row in got])
    assert decided.any()
    mapped = model.preparation.apply(rows)
    exact = model.expansion.scores(mapped)
    if model.head.kind in ("classifier", "outlier"):
        want = [told(label) for label in model.head.predict(exact).tolist()]
        assert all(row[0] == w for row, w, proven in zip(got, want, decided) if proven)
    else:
        values = np.array([row[:-1] for row in got], dtype=float)
        assert (np.abs(values - exact)[decided] <= model.tolerance).all()


BOUNDS = """
#include <stdio.h>
#include "m.h"
int main(void)
{
    double x[m_FEATURES], bounds[m_OUTPUTS];
    int i, k;
    for (;;) {
        for (i = 0; i < m_FEATURES; i++)
            if (scanf("%lf", &x[i]) != 1)
                return 0;
        m_score_bound(x, bounds);
        for (k = 0; k < m_OUTPUTS; k++)
            printf("%.17g%c", bounds[k], k + 1 < m_OUTPUTS ? ' ' : '\\n');
    }
}
"""


@gcc
@pytest.mark.parametrize("name", ["certified, binary", "certified, spectral, three"])
def test_bounds_are_hardly_above_ours(name: str, tmp_path: Path) -> None:
    model, rows = CASES[name], random_rows(m=50)[4:]
    (tmp_path / "m.h").write_text(to_c(model, name="m", part="approximation", decided=True))
    (tmp_path / "m.c").write_text(BOUNDS)
    command = ["gcc", *FLAGS, str(tmp_path / "m.c"), "-o", str(tmp_path / "m"), "-lm"]
    subprocess.run(command, check=True)
    got = np.array(answers(tmp_path / "m", rows), dtype=float)
    ours = model.score_bound(rows)
    assert (got >= ours * (1 - 2e-7)).all()
    assert (got <= ours * 1.01 + 1e-9).all()


THIRD = BOUNDS.replace("double x[m_FEATURES],", "double x[m_FEATURES], scores[m_OUTPUTS],").replace(
    "m_score_bound(x, bounds)", "m_third(x, scores, bounds)"
)


@gcc
@pytest.mark.parametrize("name", ["certified, third", "certified, third on directions"])
def test_bounds_of_the_third_order_are_hardly_above_ours(name: str, tmp_path: Path) -> None:
    model, rows = CASES[name], random_rows(m=50)[4:]
    (tmp_path / "m.h").write_text(to_c(model, name="m"))
    (tmp_path / "m.c").write_text(THIRD)
    command = ["gcc", *FLAGS, "-Wno-unused-function", str(tmp_path / "m.c")]
    subprocess.run([*command, "-o", str(tmp_path / "m"), "-lm"], check=True)
    got = np.array(answers(tmp_path / "m", rows), dtype=float)
    engine = ApproximationEngine.prepare(model.approximation, fused=False)
    scores, ours = scores_and_bounds(engine.second(rows))
    assert (got >= ours * (1 - 2e-7)).all()
    assert (got <= ours * 1.01 + 1e-9).all()
    exact = model.expansion.scores(rows)
    assert (np.abs(scores - exact) <= got).all()


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", ["form, outputs", "exact, outputs", "form, three"])
def test_single_precision(name: str, compiler: str, tmp_path: Path) -> None:
    model, rows = CASES[name], random_rows(m=100)[4:]
    program = build(model, tmp_path, compiler, dtype="float32", sample=rows)
    header = (tmp_path / "m.h").read_text()
    assert "not a bound" in header
    assert not re.search(r"\bdouble\b", header)
    got = answers(program, rows)
    scores = model.scores(rows, on_invalid="ignore")
    if model.head.kind == "regressor":
        np.testing.assert_allclose(np.array(got, dtype=float), scores, atol=1e-4)
    else:
        same = np.mean([row[0] == told(v) for row, v in zip(got, model.head.predict(scores))])
        assert same > 0.95


@gcc
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 2 3\n", "line 1: too few numbers"),
        ("1 2 3 4\n\n1,2,3,4,5\n", "line 3: too many numbers"),
        ("1 2 x 4\n", "line 1: not a finite number"),
        ("1 2 nan 4\n", "line 1: not a finite number"),
        ("1 2 1e999 4\n", "line 1: not a finite number"),
        (f"1 2 {'9' * 70} 4\n", "line 1: a number is too long"),
    ],
)
def test_bad_rows_end_the_program(text: str, says: str, tmp_path: Path) -> None:
    done = feed(build(compiled(), tmp_path), text)
    assert done.returncode == 1
    assert done.stderr == f"{says}\n"


@gcc
def test_separators_and_a_last_line_without_an_end(tmp_path: Path) -> None:
    program = build(compiled(), tmp_path)
    plain = feed(program, "1 2 3 4\n").stdout
    assert feed(program, "1,2,3,4").stdout == plain
    assert feed(program, "\r\n1\t2, 3 4\r\n\r\n").stdout == plain
    assert feed(program, "").stdout == ""


@gcc
def test_labels_and_names_cannot_break_out(tmp_path: Path) -> None:
    labels = ('REAL "NAME_x"', 'a\\"); exit(3); /*??/ é\n')
    head = ClassifierHead(np.array(labels))
    model = compiled(head)
    hostile = replace(model, origin=replace(model.origin, description='*/ int x; /* ??/\n#error "'))
    program = build(hostile, tmp_path)
    rows = random_rows()
    out = feed(program, "".join(" ".join(map(repr, row.tolist())) + "\n" for row in rows[4:]))
    said = set(model.predict(rows[4:], on_invalid="ignore").tolist())
    assert out.stdout.replace(labels[0], "").replace(labels[1], "").strip() == ""
    assert all(label in out.stdout for label in said)
    for name in ("1st", "a b", "", "int", "x" * 32, "é"):
        with pytest.raises(InputError, match="C identifier"):
            to_c(model, name=name)


def test_what_c_does_not_say_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="cannot be included"):
        to_c_program(compiled(), header='a"b.h')
    with pytest.raises(UnsupportedModelError, match="of type datetime64"):
        to_c(compiled(ClassifierHead(np.array(["2020-01-01", "2021-01-01"], "datetime64[D]"))))


def test_large_whole_labels_are_long_long() -> None:
    header = to_c(compiled(ClassifierHead(np.array([2**40, -1]))))
    assert "static const long long model_labels[2] = {1099511627776LL, -1LL};" in header
    header = to_c(compiled(ClassifierHead(np.array([-(2**63), 2**63 - 1]))))
    assert "{(-9223372036854775807LL - 1), 9223372036854775807LL};" in header


def test_constants_are_one_triangle() -> None:
    header = to_c(compiled(), name="m")
    d = FEATURES
    assert constant_bytes(header) == 8 * (d + d * (d + 1) // 2 + 2)  # p is zero; and two labels


def test_argmax_needs_no_votes() -> None:
    header = to_c(certified_with(ArgmaxHead(np.array([1, 2, 3]))), name="m")
    assert "votes" not in header


USER = """
#include <stdio.h>
#include "m.h"
int main(void)
{
    double x[m_FEATURES];
    int i, decided;
    for (;;) {
        for (i = 0; i < m_FEATURES; i++)
            if (scanf("%lf", &x[i]) != 1)
                return 0;
        i = m_index_decided(x, &decided);
        printf("%d %d %d ", m_index(x), i, m_label(x) == m_labels[i]);
        printf("%d %d\\n", decided, m_decided(x));
    }
}
"""


@gcc
@pytest.mark.parametrize(
    "name", ["certified, binary", "certified, three", "certified, argmax", "certified, outlier"]
)
def test_indices_and_proofs_come_beside_labels(name: str, tmp_path: Path) -> None:
    model, rows = CASES[name], random_rows(m=100)
    (tmp_path / "m.h").write_text(to_c(model, name="m", part="approximation", decided=True))
    (tmp_path / "m.c").write_text(USER)
    command = ["gcc", *FLAGS, "-Wno-unused-function", str(tmp_path / "m.c")]
    subprocess.run([*command, "-o", str(tmp_path / "m"), "-lm"], check=True)
    got = np.array(answers(tmp_path / "m", rows), dtype=int)
    index, same_index, same_label, decided, same_decided = got.T
    np.testing.assert_array_equal(index, same_index)
    assert same_label.all()
    np.testing.assert_array_equal(decided, same_decided)
    labels = np.array([1, -1]) if model.head.classes is None else model.head.classes
    proven = decided.astype(bool)
    assert proven.any()
    exact = model.head.predict(model.expansion.scores(rows))
    np.testing.assert_array_equal(labels[index][proven], exact[proven])


@pytest.mark.parametrize("compiler", COMPILERS)
def test_reordered_sums_are_refused(compiler: str, tmp_path: Path) -> None:
    export(compiled(), tmp_path / "m.h", main=True)
    command = [compiler, "-ffast-math", str(tmp_path / "m.c"), "-o", str(tmp_path / "m"), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "compile without -ffast-math" in done.stderr


def test_the_header_begins_with_its_functions_and_the_order_of_features() -> None:
    model = CASES["certified, binary"]
    first = to_c(model, name="m", part="approximation", decided=True).partition("*/\n#ifndef")[0]
    for said in (
        "void m_score(const double *x, double *scores)",
        "int m_index(const double *x)",
        "long m_label(const double *x)",
        "void m_score_bound(const double *x, double *bounds)",
        "int m_decided(const double *x)",
        "int m_index_decided(const double *x, int *decided)",
        f"A row x has {FEATURES} numbers, in the order of the training data.",
    ):
        assert said in first
    alone = to_c(model, name="m").partition("*/\n#ifndef")[0]
    assert "m_decided" not in alone
    assert "m_label" not in to_c(CASES["form, outputs"], name="m")


@gcc
def test_features_are_listed_by_name_and_cannot_break_out(tmp_path: Path) -> None:
    model = compiled()
    names = ("age", "*/ int x; /*", "LABEL NAME_x", "é")
    named = replace(model, origin=replace(model.origin, feature_names=names))
    build(named, tmp_path)
    first = (tmp_path / "m.h").read_text().partition("*/\n#ifndef")[0]
    assert "x[0]  age" in first
    assert "x[2]  LABEL NAME_x" in first
    assert "*/ int" not in first


@gcc
@pytest.mark.parametrize("name", ["linear, two", "linear, three", "latent", "codes"])
def test_more_heads_in_c(name: str, tmp_path: Path) -> None:
    model, rows = certified_with(ALL_HEADS[name]), random_rows()
    want = model.head.predict(model.expansion.scores(rows)).tolist()
    assert [row[0] for row in answers(build(model, tmp_path), rows)] == [told(v) for v in want]


@gcc
@pytest.mark.parametrize("step", [PolynomialFeatures(2), PCA(2)])
def test_machines_behind_steps_that_change_the_number_of_features(
    step: Any, tmp_path: Path
) -> None:
    """A machine's row is as long as the row that comes, not as what its steps make of that."""
    X, y = load_iris(return_X_y=True)
    voters = [("near", SVC(gamma=1.0)), ("far", SVC(gamma=0.1))]
    model = make_pipeline(step, VotingClassifier(voters)).fit(X, y)
    fast = kl.compile(model, X)
    assert len(fast.parts) > 1
    got = answers(build(fast, tmp_path), X)
    assert [row[0] for row in got] == [told(label) for label in model.predict(X).tolist()]


@gcc
def test_several_labels_of_a_row_are_numbers(tmp_path: Path) -> None:
    model, rows = certified_with(ALL_HEADS["outputs, labels"]), random_rows()
    got = np.array(answers(build(model, tmp_path), rows), dtype=np.float64)
    np.testing.assert_array_equal(got, model.head.predict(model.expansion.scores(rows)))


TRIED = """
#include <math.h>
#include <stdio.h>
{text}
int main(void)
{{
    double scores[{k}], bounds[{k}];
    int k;
    for (;;) {{
        for (k = 0; k < {k}; k++)
            if (scanf("%lf %lf", &scores[k], &bounds[k]) != 2)
                return 0;
        printf("%d %d\\n", m_winner(scores), m_settled(scores, bounds));
    }}
}}
"""
RULES = {
    "two": ClassifierHead(np.arange(2)),
    "two, reversed": ClassifierHead(np.arange(2), first_positive=False),
    "two, moved": ClassifierHead(np.arange(2), threshold=1.0, zero_is_first=True),
    "three": ClassifierHead(np.arange(3)),
    "three, reversed": ClassifierHead(np.arange(3), first_positive=False),
    "outliers": OutlierHead(),
}


@gcc
@pytest.mark.parametrize("name", RULES)
def test_what_c_calls_proven_is_what_the_head_does(name: str, tmp_path: Path) -> None:
    """Of all scores and bounds from a few whole numbers, so that many are equal."""
    head, k = RULES[name], RULES[name].n_scores
    values = np.array(list(product(range(-2, 3), range(3)) if k == 1 else BOTH), dtype=float)
    each = np.array(list(product(range(len(values)), repeat=k)))
    scores, bounds = values[each, 0], values[each, 1]
    rule = label_rule(head)
    assert rule is not None
    made = Functions(Writer("m"))
    trace = rule[1].trace
    inputs = {name: trace.input(name, k) for name in ("scores", "bounds")}
    made.add("", "winner", {"scores": inputs["scores"]}, returned=rule[1])
    made.add("", "settled", inputs, returned=head.decided(*inputs.values()))
    text = made.constants.text + made.text
    (tmp_path / "m.c").write_text(TRIED.format(text=text, k=k))
    command = ["gcc", *FLAGS, str(tmp_path / "m.c"), "-o", str(tmp_path / "m"), "-lm"]
    subprocess.run(command, check=True)
    fed = np.stack([scores, bounds], axis=2).reshape(len(each), -1)
    got = np.array(answers(tmp_path / "m", fed), dtype=int)
    labels = rule[0][got[:, 0]]
    np.testing.assert_array_equal(labels, head.predict(scores))
    np.testing.assert_array_equal(got[:, 1] == 1, head.decided(scores, bounds))


BOTH = [(-2, 1), (-1, 1), (-1, 0), (0, 0), (0, 1), (1, 0), (1, 1), (2, 1)]


@gcc
@pytest.mark.parametrize("name", ["calibrated, binary", "calibrated, three"])
def test_rows_below_the_threshold_are_the_exact_models(name: str, tmp_path: Path) -> None:
    model, rows = CASES[name], 3.0 * random_rows()
    assert model.approximation is not None
    assert model.expansion is not None
    form, exact = model.approximation.form.evaluate(rows)[0], model.expansion.scores(rows)
    margins = model.head.margin(form)
    model = replace(model, threshold=float(np.median(margins)))
    export(model, tmp_path / "m.h")
    (tmp_path / "m.c").write_text(BOUNDS.replace("m_score_bound", "m_score"))
    command = ["gcc", *FLAGS, str(tmp_path / "m.c"), "-o", str(tmp_path / "m"), "-lm"]
    subprocess.run(command, check=True)
    got = np.array(answers(tmp_path / "m", rows), dtype=float)
    want = np.where((margins > model.threshold)[:, None], form, exact)
    assert np.abs(form - exact).max() > 1e-3
    same_scores(got, want)
