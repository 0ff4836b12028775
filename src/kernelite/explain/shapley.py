"""Exact Shapley values of a model's scores, with proven error bounds.

The value of a coalition is shap's own: players outside it are taken from the background rows, and
the mean over these is taken (interventional). Where a term is a product of factors, one per player,
u_l = k_l(x_l, s_l) and v_l = k_l(b_l, s_l) for one center s and one background row b,

    phi_j = (u_j - v_j) integral_0^1 prod_{l != j} ((1 - t) v_l + t u_l) dt,

since a coalition of size c among p - 1 others has the weight integral t^c (1 - t)^(p - 1 - c) dt.
The integrand is a polynomial of degree p - 1, which a Gauss-Legendre rule of ceil(p / 2) nodes
integrates exactly; `quadrature` says how far fewer nodes are off: with a rule that leaves out a
share e of prod mid_l, mid_l = (u_l + v_l) / 2, and |u_j - v_j| <= 2 mid_j,

    |error of phi_j| <= (64 / 15) e prod mid_l.

Rounding. All factors are positive, so no sum in a node cancels: M = v + t (u - v) for t <= 1/2 errs
by 3 units (u = 2^-53) of M, because t |u - v| <= M, and by what u and v err by; likewise
u - t (u - v) for 1 - t. A factor exp(-e) errs by 4 units and by the absolute error of e, which
`factors` sums up over all features of a center: relative errors of the exponent times itself, and
how far coordinates were moved times the slope. With E_u and E_v these sums, prod M and its sum over
nodes are off by a factor of (1 + (8 p + q + 8) u) exp(E_u + E_v) at most; sums over B background
rows, and over n centers in s steps, add B + s units. What is left is u_j - v_j, which may cancel:
it errs by a share of u_j + v_j. With I_j the integral as computed, and higher orders in a factor of
1.05,

    |error of phi_j| <= sum_i |A_i| mean_b I_j (u_j + v_j) (exp(E_u + E_v) (1 + c u) - 1),
    c = 8 p + q + B + s + 32.

Exponents beyond 690 count as 690, which changes a factor by 1e-299 at most; errors of the A_i count
once, because no |phi_j| of a center is above 1.

A polynomial of degree 2 has phi in closed form: with a_l = gamma s_l x_l and b_l likewise,

    phi_j = (a_j - b_j) (2 coef0 + sum_l (a_l + b_l)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.frames import column_names, frame_values, is_frame
from kernelite.data.rows.inputs import FloatArray, is_sparse
from kernelite.explain.sums import LayOut, Sums, Tiles, add_polynomial, add_products, add_tail
from kernelite.explain.terms import PolynomialTerm, SeenBy, origins, seen_by, terms_of
from kernelite.machine.exactly import UNIT
from kernelite.model.fields import ModelFields
from kernelite.support.errors import InputError, UnsupportedModelError
from kernelite.support.terminal import Progress

__all__ = ["Explanation", "shap_values"]

MOST_BACKGROUND = 100_000  # rows; more would take hours, and say no more than a sample


@dataclass(frozen=True, eq=False)
class Explanation:
    """Shapley values of some rows; what shap's own `Explanation` holds, where shap is absent.

    Parameters
    ----------
    values : ndarray of shape (m, p), or (m, p, k) for several outputs
    base_values : ndarray of shape (m,) or (m, k)
        The mean score of the background.
    data : ndarray of shape (m, p), optional
        What players had in each row; None for a group of several columns.
    feature_names, output_names : list of str
    bounds : ndarray, shaped as `values`
        No value is farther from the exact one.
    base_bounds : ndarray, shaped as `base_values`
    """

    values: FloatArray
    base_values: FloatArray
    data: NDArray[Any] | None
    feature_names: list[str]
    output_names: list[str]
    bounds: FloatArray
    base_bounds: FloatArray

    def for_shap(self) -> Any:
        """shap's own object, for its plots; it has `bounds` and `base_bounds` besides."""
        shap = import_module("shap")

        made = shap.Explanation(
            values=self.values,
            base_values=self.base_values,
            data=self.data,
            feature_names=self.feature_names,
            output_names=self.output_names if self.values.ndim == 3 else None,
            lower_bounds=self.values - self.bounds,
            upper_bounds=self.values + self.bounds,
        )
        made.bounds, made.base_bounds = self.bounds, self.base_bounds
        return made


def shap_values(
    model: ModelFields,
    X: Any,
    background: Any,
    *,
    groups: Mapping[str, Sequence[Any]] | None = None,
    tolerance: float | None = None,
    output: str | None = None,
    products: LayOut = Tiles.of,
) -> Explanation:
    """Shapley values of the scores of rows `X`: see `CompiledModel.shap_values`.

    `products` lays out what sums up products of factors, on processors by default.
    """
    names = output_names(model, output)
    number = isinstance(tolerance, int | float | np.number)
    if tolerance is not None and not (number and 0 < tolerance < np.inf):
        raise InputError(f"`tolerance` must be a positive number, got {tolerance!r}.")
    _check_background(background)
    seen, others = seen_by(model, X), seen_by(model, background, "background")
    if not len(others[0].rows):
        raise InputError(
            "`background` has no rows; pass some of those that the model was fitted on."
        )
    players = players_of(model, X, seen, groups)
    total = Sums.empty(len(seen[0].rows), len(others[0].rows), players.count, len(names))
    with Progress("explaining rows", len(seen[0].rows) * len(seen)) as bar:
        for own, other, places in zip(seen, others, players.places):
            total.add_constant(own)
            for term in terms_of(own.expansion):
                if isinstance(term, PolynomialTerm):
                    add_polynomial(total, term, own, other, places)
                else:
                    add_products(total, term, own, other, places, tolerance, products, bar)
            if own.model.tail is not None:
                add_tail(total, own.model.tail, own, other, places)
            bar.reach(len(own.rows) * (1 + seen.index(own)))
    return _explanation(total, players, names)


def output_names(model: ModelFields, output: str | None) -> list[str]:
    """Names of the scores that are explained; a refusal where answers are no scores."""
    head, k = model.head, model.head.n_scores
    if output not in (None, "scores"):
        raise InputError(f"`output` must be 'scores' or None, got {output!r}.")
    classes = head.classes
    if head.scores_are_pairs and classes is not None and len(classes) > 2:
        pairs = [(a, b) for i, a in enumerate(classes) for b in classes[i + 1 :]]
        return [f"{a} rather than {b}" for a, b in pairs]
    if output is None and not _answers_scores(model):
        raise UnsupportedModelError(
            f"the answers of this {model.origin.type_name} are no sums of kernel values (they are "
            "votes, probabilities, logarithms or transformed targets); pass output='scores' to "
            "explain the sums that they are made from, which `scores` returns."
        )
    if classes is not None and not isinstance(classes, list) and len(classes) == k > 1:
        return [str(label) for label in classes]
    return [f"output {j}" for j in range(k)] if k > 1 else ["score"]


def _answers_scores(model: ModelFields) -> bool:
    """Whether a method of the source answers the scores themselves, up to their shape."""
    head, k = model.head, model.head.n_scores
    probe = np.random.default_rng(0).normal(size=(5, k))
    for method in ("decision_function", "predict", "transform"):
        if method in model.offers and not (method == "predict" and head.proves_labels):
            answers = np.asarray(head.answer(method, probe), dtype=np.float64)
            if answers.size == probe.size and (answers.reshape(probe.shape) == probe).all():
                return True
    return bool(head.scores_are_pairs) or (k == 1 and head.proves_labels)


def _check_background(background: Any) -> None:
    if background is None:
        raise InputError(
            "`background` is missing: Shapley values compare a row with others; pass some rows "
            "that the model was fitted on, about a hundred."
        )
    try:
        count = background.shape[0] if hasattr(background, "shape") else len(background)
    except (TypeError, IndexError):
        kind = type(background).__name__
        raise InputError(f"`background` must be rows, got one {kind}.") from None
    if count > MOST_BACKGROUND:
        raise InputError(
            f"`background` has {count:,} rows, but at most {MOST_BACKGROUND:,} are compared with; "
            "a random sample of a few hundred rows gives nearly the same values."
        )


def _explanation(total: Sums, players: Players, names: list[str]) -> Explanation:
    """In shap's order of axes, without that of outputs where there is one."""
    m = len(total.values)
    # Terms were added up: a unit of each value per term, and of the base.
    bounds = total.bounds * (1.0 + 1e-9) + 16.0 * UNIT * np.abs(total.values)
    base_bounds = total.base_bounds * (1.0 + 1e-9) + 16.0 * UNIT * np.abs(total.base)
    for array in (bounds, base_bounds):
        array[np.isnan(array)] = np.inf  # rows so far away that nothing is known
    arrays = [
        total.values.transpose(0, 2, 1),
        bounds.transpose(0, 2, 1),
        np.tile(total.base, (m, 1)),
        np.tile(base_bounds, (m, 1)),
    ]
    if len(names) == 1:
        arrays = [array[..., 0] for array in arrays]
    values, bounds, base, base_bounds = map(np.ascontiguousarray, arrays)
    return Explanation(values, base, players.data, players.names, names, bounds, base_bounds)


# The players of a game: columns that users pass, or groups of them.


MOST_PLAYERS = 4096


@dataclass(frozen=True, eq=False)
class Players:
    """Who plays, and which of them each feature of each machine belongs to.

    Parameters
    ----------
    names : list of str
    places : list of int arrays
        For each machine, a player per feature.
    data : ndarray of shape (m, p), optional
        What each player had in each row; None for a group of several columns.
    """

    names: list[str]
    places: list[NDArray[np.int64]]
    data: NDArray[Any] | None

    @property
    def count(self) -> int:
        """p, how many players there are."""
        return len(self.names)


def players_of(
    model: ModelFields, X: Any, seen: Sequence[SeenBy], groups: Mapping[str, Sequence[Any]] | None
) -> Players:
    """The players of a model; a refusal where a feature is made of several of them."""
    columns = _column_names(model, X)
    members = _members(columns, groups)
    if len(members) > MOST_PLAYERS:
        raise UnsupportedModelError(
            f"{len(members)} players are too many; the most is {MOST_PLAYERS}. Put columns that "
            "belong together into `groups`."
        )
    owner = {column: g for g, own in enumerate(members.values()) for column in own}
    places = []
    for one in seen:
        found = []
        for origin in origins(model, one.model):
            owners = {owner[column] for column in origin}
            if len(owners) > 1:
                _refuse_mixed([columns[column] for column in sorted(origin)])
            found.append(owners.pop() if owners else 0)
        places.append(np.array(found, dtype=np.int64))
    return Players(list(members), places, _data(X, list(members.values())))


def _refuse_mixed(names: list[str]) -> None:
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    raise UnsupportedModelError(
        f"a step before this model mixes the columns {shown}, or may do so: they cannot be told "
        "apart; pass them as one player by `groups=`, or explain the last step of the pipeline on "
        "transformed rows."
    )


def _column_names(model: ModelFields, X: Any) -> list[str]:
    if model.origin.feature_names is not None:
        return [str(name) for name in model.origin.feature_names]
    named = column_names(X) if is_frame(X) else None
    if named is not None and len(named) == model.n_features_in_:
        return named
    return [f"x{j}" for j in range(model.n_features_in_)]


def _members(
    columns: list[str], groups: Mapping[str, Sequence[Any]] | None
) -> dict[str, list[int]]:
    """Columns of each player, in the order of their first columns."""
    if groups is None:
        groups = {}
    if not isinstance(groups, Mapping):
        raise InputError(
            "`groups` must be a dictionary from a name to its columns, e.g. "
            f"{{'size': ['width', 'height']}}, got {type(groups).__name__}."
        )
    taken: dict[int, str] = {}
    for name, own in groups.items():
        if isinstance(own, str) or not isinstance(own, Sequence | np.ndarray) or not len(own):
            raise InputError(f"group {name!r} of `groups` must be a list of columns, got {own!r}.")
        for column in own:
            place = _place(column, columns)
            if place in taken:
                raise InputError(
                    f"column {columns[place]!r} is in two groups, {taken[place]!r} and {name!r}."
                )
            taken[place] = str(name)
    members: dict[str, list[int]] = {}
    for place, column in enumerate(columns):
        name = taken.get(place, column)
        if place not in taken and column in map(str, groups):
            raise InputError(f"group {column!r} of `groups` has the name of another column.")
        members.setdefault(name if place in taken else column, []).append(place)
    return members


def _place(column: Any, columns: list[str]) -> int:
    if isinstance(column, int | np.integer) and not isinstance(column, bool):
        if 0 <= column < len(columns):
            return int(column)
        raise InputError(f"`groups` names column {column}, but there are {len(columns)}.")
    if str(column) in columns:
        return columns.index(str(column))
    known = ", ".join(columns[:6]) + (", ..." if len(columns) > 6 else "")
    raise InputError(f"`groups` names an unknown column, {column!r}; there are: {known}.")


def _data(X: Any, members: list[list[int]]) -> NDArray[Any] | None:
    """What players had, where they are a column each."""
    if any(len(own) != 1 for own in members):
        return None
    values = frame_values(X) if is_frame(X) else X.toarray() if is_sparse(X) else np.asarray(X)
    chosen = [own[0] for own in members]
    if values.ndim != 2 or values.shape[1] != len(chosen):
        return None
    return np.asarray(values[:, chosen])
