"""The players of a game: columns that users pass, or groups of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.frames import column_names, frame_values, is_frame
from kernelite.data.rows.inputs import is_sparse
from kernelite.explain.terms import SeenBy, origins
from kernelite.model.fields import ModelFields
from kernelite.support.errors import InputError, UnsupportedModelError

__all__ = ["Players", "players_of"]

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
        """p."""
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
