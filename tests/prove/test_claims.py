"""The claims cover the source, follow its constants, and fail where a bound does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from kernelite.backends.cpu.kernels import exp, exp2, lanes
from tests.prove import __main__ as command
from tests.prove import claims as claimed
from tests.prove.claims import Claim, claims, family
from tests.prove.functions import double_exp
from tests.prove.tools import Unproven, dyadic, enclosures, missing, most_error

PRECISIONS = ("SINGLE", "DOUBLE", "QUICK", "QUICKEST")
TABLES = {exp2: {"LOG2"}, lanes: {"SINE"}}  # polynomials beside those of a `Precision`

needs_tools = pytest.mark.skipif(bool(missing()), reason=f"not installed: {', '.join(missing())}")


def test_every_precision_of_both_families_is_claimed() -> None:
    subjects = {claim.subject for claim in claims()}
    for side in ("256 bits", "512 bits"):
        assert {f"2^y, {name}, {side}" for name in PRECISIONS} <= subjects
    names = {name for name, value in vars(exp2).items() if isinstance(value, exp2.Precision)}
    assert names == set(PRECISIONS)


def test_families_differ_and_one_of_them_is_this_machine_s() -> None:
    wide, narrow = family(True), family(False)
    here = wide if exp2.WIDE else narrow
    for name in PRECISIONS:
        polynomials = [getattr(one, name).polynomial for one in (wide, narrow)]
        assert polynomials[0] != polynomials[1]
        assert getattr(here, name).polynomial == getattr(exp2, name).polynomial


@pytest.mark.parametrize("module", [exp, exp2, lanes])
def test_no_other_table_of_coefficients_is_in_the_source(module: object) -> None:
    tables = {
        name
        for name, value in vars(module).items()
        if isinstance(value, tuple) and value and all(isinstance(one, float) for one in value)
    }
    assert tables == TABLES.get(module, set())  # type: ignore[call-overload]


def test_series_of_exp_are_read_whole() -> None:
    assert len(double_exp().series) == 12
    numbered = [name for name in vars(exp) if name[:2] == "_C" and name[2:].isdigit()]
    assert len(numbered) == 12


def test_dyadic_numbers_are_exact() -> None:
    for value in (0.1, -1e-300, 3.0, float(np.float32(0.3))):
        whole, places = dyadic(value).split("b")
        assert int(whole) * Fraction(2) ** int(places) == Fraction(value)


def _fails() -> Fraction:
    raise Unproven("no answer")


@pytest.mark.parametrize(
    ("find", "status", "words"),
    [
        (lambda: Fraction(1), 0, "All claims are proven."),
        (lambda: Fraction(3), 1, "1 claims are NOT proven."),
        (_fails, 1, "no answer"),
    ],
)
def test_the_exit_status_says_whether_all_is_proven(
    find: Callable[[], Fraction],
    status: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "missing", list)
    monkeypatch.setattr(command, "claims", lambda: [Claim("a", "b", Fraction(2), find)])
    assert command.main() == status
    assert words in capsys.readouterr().out


def test_missing_tools_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "missing", lambda: ["gappa"])
    assert command.main() == 2
    assert "apt-get install gappa sollya" in capsys.readouterr().err


@needs_tools
def test_the_tools_answer() -> None:
    found = most_error("1 + x", "exp(x)", Fraction(0), Fraction(1, 8))
    assert 0 < float(found) - (1 - 1.125 / np.exp(0.125)) < 1e-5
    assert enclosures("{ x in [1, 2] -> x * x in ? }") == [(1, 4)]
    with pytest.raises(Unproven, match="0 of 1"):
        enclosures("{ x in [1, 2] -> y in ? }")
    with pytest.raises(Unproven, match="equal"):
        enclosures("{ x in [1, 2] -> x - y in ? } x - y -> x + 1;")


@needs_tools
@pytest.mark.campaign
def test_all_is_proven_and_the_page_has_the_figures() -> None:
    page = (Path(__file__).parents[2] / "docs/theory/proven-by-whom.md").read_text(encoding="utf-8")
    for claim in claims():
        figure = claim.find()
        assert figure <= claim.stated, claim
        if claim.what.startswith("error"):
            shown = float(figure / claim.unit)
            text = f"{shown:.2f}" if shown > 1 else f"{shown:.2e}".replace("e-0", "e-")
            assert f" {text} " in page, (claim.subject, text)


@needs_tools
def test_a_changed_coefficient_is_not_proven() -> None:
    right = family(False).QUICK
    wrong = replace(right, polynomial=(*right.polynomial[:3], 0.0555, *right.polynomial[4:]))
    for precision, holds in ((right, True), (wrong, False)):
        error = [claim for claim in claimed._powers("", precision) if claim.what == "error"]
        assert (error[0].find() <= error[0].stated) is holds
