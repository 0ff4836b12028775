"""scikit-learn is an extra: who needs it says so here, before importing it."""

from __future__ import annotations

import re

from kernelite.support.errors import MissingExtraError, missing_extra

__all__ = ["OLDEST", "require_scikit_learn"]

OLDEST = (1, 5)
"""The oldest version that is served; pyproject.toml names it too."""


def require_scikit_learn(need: str) -> None:
    """Refuse by one sentence if scikit-learn is absent or too old.

    Parameters
    ----------
    need : str
        What needs it: the subject of the sentence, with its verb.

    Examples
    --------
    >>> require_scikit_learn("`score` needs")
    """
    try:
        import sklearn
    except ImportError as error:
        raise missing_extra(f"{need} scikit-learn", "scikit-learn", "sklearn") from error
    found = tuple(int(number) for number in re.findall(r"\d+", sklearn.__version__)[:2])
    if found < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise MissingExtraError(
            f"{need} scikit-learn {oldest} or newer, and {sklearn.__version__} is installed: "
            "pip install --upgrade scikit-learn (the extra `sklearn`)."
        )
