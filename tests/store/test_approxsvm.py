"""approxsvm's text models: round trips, its own files, what it cannot hold, hostile files."""

from __future__ import annotations

import bz2
import dataclasses
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelite.machine.heads import ClassifierHead, OutlierHead, RegressorHead
from kernelite.model import CompiledModel
from kernelite.series.approximation import Approximation, certify
from kernelite.series.series import QuadraticForm
from kernelite.store import approxsvm
from kernelite.store.files import load
from kernelite.support.errors import FileFormatError, KerneliteError, UnsupportedModelError
from tests.store.models import HEADS, assert_same, binary_head, compiled, one_form

pytestmark = pytest.mark.filterwarnings("ignore::kernelite.model.serving.OutsideValidityWarning")

# As approxsvm writes it: six digits, single precision, a blank after every number of M.
ITS_OWN = """approximated SVM classifier
labels 1 -1
threshold 0
svm_type c_svc
d 2
kernel_type rbf
gamma 0.05
maxnorm 3.66516
b -14.6479
c 14.2488
v 0.141992 -0.389275
M
0.00703728 1.5e-06 
1.50001e-06 -0.0194685 
"""  # noqa: W291


def written(model: CompiledModel, folder: Path, **options: Any) -> str:
    approxsvm.write(model, folder / "m.approx", **options)
    return (folder / "m.approx").read_text()


def read_text(text: str | bytes, folder: Path) -> CompiledModel:
    path = folder / "m.approx"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return approxsvm.read(path)


def form_of(model: CompiledModel) -> QuadraticForm:
    assert isinstance(model.form, QuadraticForm)
    return model.form


# Reading and writing ----------------------------------------------------------------------------


def test_its_own_file(tmp_path: Path) -> None:
    model = read_text(ITS_OWN, tmp_path)
    form = form_of(model)
    assert (form.gamma, form.max_sq_norm, form.intercept[0]) == (0.05, 3.66516, -14.6479)
    assert form.linear[:, 0].tolist() == [0.141992, -0.389275]
    assert form.quadratic[0, 0, 1] == form.quadratic[0, 1, 0] == pytest.approx(1.500005e-06)
    assert model.guarantee == "none"
    assert (model.origin.family, model.origin.type_name) == ("approxsvm", "c_svc")
    z = np.array([0.5, -1.0])
    g = 14.2488 + z @ form.linear[:, 0] + z @ form.quadratic[0] @ z
    assert model.decision_function(z[None])[0] == pytest.approx(np.exp(-0.05 * 1.25) * g - 14.6479)
    assert model.predict(z[None]).tolist() == [-1]


def test_plan_of_a_read_model_prints(tmp_path: Path) -> None:
    assert "Nothing is known of the exact model." in str(read_text(ITS_OWN, tmp_path).plan)


@pytest.mark.parametrize(("pack", "name"), [(gzip.compress, "m.gz"), (bz2.compress, "m.bz2")])
def test_compressed_files(pack: Any, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(pack(ITS_OWN.encode()))
    assert form_of(load(tmp_path / name)).gamma == 0.05


def test_line_ends_and_blanks_do_not_matter(tmp_path: Path) -> None:
    text = ITS_OWN.replace("\n", "\r\n").replace(" -1\r", "\t-1 \r") + "\r\n\r\n"
    assert_same(read_text(text, tmp_path), read_text(ITS_OWN, tmp_path))


SOUND = {
    "c_svc": (binary_head((1, -1)), "c_svc", "c_svc"),
    "nu_svc": (binary_head((3, 8)), "nu_svc", "nu_svm"),
    "NuSVC": (binary_head((0, 1), first_positive=False), "NuSVC", "nu_svm"),
    "arrays": (binary_head((1.0, -1.0)), "KernelExpansion", "c_svc"),
    "epsilon_svr": (RegressorHead(), "epsilon_svr", "eps_svr"),
    "nu_svr": (RegressorHead(), "nu_svr", "nu_svr"),
    "ls_svm": (RegressorHead(), "ls_svm", "ls_svm"),
    "one_class": (OutlierHead(), "one_class", "one_svm"),
}


@pytest.mark.parametrize(("head", "type_name", "its_name"), SOUND.values(), ids=SOUND)
def test_predictions_survive(head: Any, type_name: str, its_name: str, tmp_path: Path) -> None:
    model = compiled(head, type_name=type_name)
    assert f"\nsvm_type {its_name}\n" in written(model, tmp_path)
    again = load(tmp_path / "m.approx")
    rows = np.random.default_rng(3).normal(size=(20, 4))
    np.testing.assert_array_equal(model.predict(rows), again.predict(rows))
    np.testing.assert_array_equal(model.scores(rows), again.scores(rows))
    assert type(again.head) is type(head)
    assert written(again, tmp_path) == written(model, tmp_path)


@settings(max_examples=50, deadline=None)
@given(draw=st.data(), d=st.integers(0, 4))
def test_numbers_survive_to_the_bit(
    tmp_path_factory: pytest.TempPathFactory, draw: st.DataObject, d: int
) -> None:
    floats = st.floats(-3.4e38, 3.4e38)
    M = np.array(draw.draw(st.lists(floats, min_size=d * d, max_size=d * d))).reshape(d, d)
    form = QuadraticForm(
        point=np.zeros(d),
        constant=np.array([draw.draw(floats)]),
        linear=np.array(draw.draw(st.lists(floats, min_size=d, max_size=d))).reshape(d, 1),
        quadratic=np.where(np.tri(d, dtype=bool), M, M.T)[None],
        intercept=np.array([draw.draw(floats)]),
        gamma=draw.draw(st.floats(1e-30, 3.4e38)),
        max_sq_norm=draw.draw(st.floats(0, 3.4e38)),
    )
    head = binary_head((1, -1), threshold=draw.draw(floats), zero_is_first=True)
    model = dataclasses.replace(compiled(head, d=d), approximation=one_form(form))
    again_path = tmp_path_factory.mktemp("approx") / "m.approx"
    approxsvm.write(model, again_path)
    again = approxsvm.read(again_path)
    assert_same(again.form, form)
    assert_same(again.head, head)


def test_threshold_moves_labels_only(tmp_path: Path) -> None:
    plain = compiled(binary_head((7, -7)))
    rows = np.random.default_rng(4).normal(size=(30, 4))
    decisions = plain.decision_function(rows)
    limit = float(np.sort(decisions)[10])
    text = written(plain, tmp_path).replace("threshold 0.0", f"threshold {limit!r}")
    moved = read_text(text, tmp_path)
    np.testing.assert_array_equal(moved.decision_function(rows), decisions)
    # `>=`: the row that sits on the threshold is positive
    np.testing.assert_array_equal(moved.predict(rows), np.where(decisions >= limit, 7, -7))
    assert (moved.predict(rows) == 7).sum() == 20


def test_threshold_counts_when_a_label_is_proven() -> None:
    head = binary_head((1, -1), threshold=2.0)
    scores, bounds = np.array([[1.0], [1.9], [2.5]]), np.full((3, 1), 0.25)
    assert head.decided(scores, bounds).tolist() == [True, False, True]
    turned = binary_head((1, -1), threshold=2.0, first_positive=False, zero_is_first=True)
    assert turned.predict(np.array([[1.0], [2.0], [3.0]])).tolist() == [1, 1, -1]


def test_one_class_with_other_labels_stays_a_classifier(tmp_path: Path) -> None:
    text = ITS_OWN.replace("c_svc", "one_svm")
    head = read_text(text, tmp_path).head
    assert isinstance(head, OutlierHead)
    assert (head.offset, head.zero_is_inlier) == (14.6479, True)
    other = read_text(text.replace("labels 1 -1", "labels 1 0"), tmp_path).head
    assert isinstance(other, ClassifierHead)
    assert other.classes.tolist() == [1, 0]


# What it cannot hold ----------------------------------------------------------------------------


def scaled(factor: float) -> CompiledModel:
    model = compiled()
    return dataclasses.replace(
        model,
        approximation=one_form(
            dataclasses.replace(form_of(model), linear=form_of(model).linear * factor)
        ),
    )


def certified() -> CompiledModel:
    model = compiled()
    expansion = compiled(exact=True).expansion
    assert expansion is not None
    cell = Approximation(form_of(model), certificate=certify(expansion, np.zeros(4)))
    return dataclasses.replace(model, approximation=cell)


REFUSED = {
    "a certificate": (certified, "it has a certificate"),
    "exact": (lambda: compiled(exact=True), "its guarantee is 'exact'"),
    "polynomial": (lambda: compiled(kernel="poly2"), "its kernel is polynomial"),
    "three classes": (lambda: compiled(HEADS["three"]), "it has 3 outputs"),
    "another point": (lambda: compiled(at_origin=False), "expansion_point='origin'"),
    "texts": (lambda: compiled(HEADS["texts"]), "label 'nein' is not a number"),
    "truth values": (lambda: compiled(HEADS["truth values"]), "label False is not a number"),
    "floats": (lambda: compiled(HEADS["floats"]), "label 0.5 is not an integer"),
    "a long label": (lambda: compiled(binary_head((0, 2**31))), "not an integer of 32 bits"),
    "an infinite label": (lambda: compiled(binary_head((0.0, np.inf))), "not an integer"),
    "platt": (lambda: compiled(HEADS["platt"]), "it has probabilities"),
    "noise": (lambda: compiled(HEADS["regressor"]), "it has probabilities"),
    "marks": (lambda: compiled(HEADS["outlier"]), "it has probabilities"),
    "overflow": (lambda: scaled(1e200), "overflows in single precision"),
}


@pytest.mark.parametrize(("build", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_the_format_cannot_hold(build: Any, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        written(build(), tmp_path)
    assert reason in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_vanishing_gamma_is_refused(tmp_path: Path) -> None:
    model = compiled()
    form = dataclasses.replace(model.form, gamma=1e-60)
    with pytest.raises(UnsupportedModelError, match="vanishes in single precision"):
        written(dataclasses.replace(model, approximation=one_form(form)), tmp_path)


@pytest.mark.parametrize("name", ["platt", "regressor", "outlier"])
def test_probabilities_can_be_dropped(name: str, tmp_path: Path) -> None:
    model = compiled(HEADS[name])
    written(model, tmp_path, drop_probabilities=True)
    rows = np.ones((1, 4))
    again = load(tmp_path / "m.approx")
    np.testing.assert_array_equal(again.scores(rows), model.scores(rows))
    by_probability = binary_head(platt_a=[-1.0], platt_b=[1.0], labels_by_probability=True)
    with pytest.raises(UnsupportedModelError, match="labels follow the probabilities"):
        written(compiled(by_probability), tmp_path, drop_probabilities=True)


# Hostile files ----------------------------------------------------------------------------------

BAD = {  # what to replace, by what, and the message with its line
    "another title": ("classifier\n", "transformer\n", "1: `approximated SVM transformer`"),
    "labels missing": ("labels 1 -1\n", "", "2: expected `labels`, got `threshold`"),
    "one label": ("labels 1 -1", "labels 1", "2: `labels` has 1 values, expected 2"),
    "a label is a text": ("labels 1 -1", "labels 1 no", "2: label `no` is not an integer"),
    "a long label": ("labels 1 -1", "labels 1 2147483648", "2: label `2147483648` is out of"),
    "labels are the same": ("labels 1 -1", "labels 1 +1", "2: the labels must differ"),
    "threshold is nan": ("threshold 0", "threshold nan", "3: threshold `nan` is not finite"),
    "an unknown type": ("c_svc", "eps_svr", "4: svm_type `eps_svr` is unknown here"),
    "negative width": ("d 2", "d -2", "5: d `-2` is out of range"),
    "huge width": ("d 2", "d 2147483647", "11: `v` has 2 values, expected 2147483647"),
    "huger width": ("d 2", "d 99999999999999999999", "5: d `99999999999999999999` is out of"),
    "another kernel": ("rbf", "poly", "6: kernel_type `poly` is unknown here, known: rbf"),
    "gamma is zero": ("gamma 0.05", "gamma 0", "7: gamma must be positive, got 0.0"),
    "gamma underflows": ("gamma 0.05", "gamma 1e-999", "7: gamma must be positive, got 0.0"),
    "gamma has a comma": ("gamma 0.05", "gamma 0,05", "7: gamma `0,05` has a decimal comma"),
    "gamma twice": ("gamma 0.05\n", "gamma 1\ngamma 1\n", "8: expected `maxnorm`, got `gamma`"),
    "negative norm": ("maxnorm 3", "maxnorm -3", "8: maxnorm must not be negative"),
    "overflow": ("b -14.6479", "b -1e999", "9: b `-1e999` is too large for a double"),
    "infinity": ("c 14.2488", "c inf", "10: c `inf` is not finite"),
    "v is short": (" -0.389275", "", "11: `v` has 1 values, expected 2"),
    "v is hexadecimal": ("0.141992", "0x1p-3", "11: value of v `0x1p-3` is not a decimal number"),
    "M missing": ("M\n", "", "12: expected `M`, got `0.00703728`"),
    "a row is short": ("1.5e-06 ", "", "13: a row of M has 1 numbers, expected 2"),
    "a row is long": ("1.5e-06 ", "1 2 ", "13: a row of M has 3 numbers, expected 2"),
    "a row has nan": ("0.00703728", "nan", "13: value of M `nan` is not finite"),
    "a row is missing": ("1.50001e-06 -0.0194685 \n", "", "13: the file ends before row 2 of"),
    "a row is empty": ("M\n", "M\n\n", "13: a row of M has 0 numbers, expected 2"),
    "more rows": ("-0.0194685 \n", "-0.0194685 \n0 0\n", "15: `0 0` comes after the 2 rows"),
    "cut short": ("-0.0194685 \n", "-0.0194", "14: the last line has no end"),
    "asymmetric": ("1.50001e-06", "0.001", "13: M is not symmetric, see row 1 and column 2"),
    "other digits": ("0.05", "٠.٠٥", "7: gamma `٠.٠٥` is not a decimal number"),
    "a NUL": ("0.05", "\0", "7: the line holds a NUL byte"),
}


@pytest.mark.parametrize(("old", "new", "message"), BAD.values(), ids=BAD)
def test_bad_files_name_the_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in ITS_OWN
    with pytest.raises(FileFormatError) as caught:
        read_text(ITS_OWN.replace(old, new, 1), tmp_path)
    line, _, problem = message.partition(": ")
    assert caught.value.line == int(line)
    assert caught.value.problem.startswith(problem)


def test_all_defects_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "m.approx"
    text = ITS_OWN.replace("c_svc", "svc").replace("b -14", "b x-14").replace("0.0070", "oops")
    path.write_text(text)
    assert [defect.line for defect in approxsvm.defects(path)] == [4, 9, 13]
    path.write_text(ITS_OWN)
    assert approxsvm.defects(path) == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged")


@settings(max_examples=200, deadline=None)
@given(draw=st.data())
def test_damaged_files_never_surprise(folder: Path, draw: st.DataObject) -> None:
    data = bytearray(ITS_OWN.encode())
    for _ in range(draw.draw(st.integers(1, 3))):
        position = draw.draw(st.integers(0, len(data) - 1))
        data[position] = draw.draw(st.integers(0, 255) | st.sampled_from(b"0123456789.e- \n"))
    try:
        model = read_text(bytes(data[: draw.draw(st.none() | st.integers(0, len(data)))]), folder)
    except KerneliteError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either outcome is right
        return
    assert model.predict(np.zeros((1, model.n_features_in_))).shape == (1,)


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    for length in range(len(ITS_OWN) - 1):
        with pytest.raises(FileFormatError):
            read_text(ITS_OWN[:length], tmp_path)
