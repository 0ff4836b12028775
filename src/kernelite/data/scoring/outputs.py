"""What a model answers, as named columns.

In: a model and rows. Out: `label` (of regressors `prediction`, of transforms `component_0`, ...),
`score` or `score_<class>`, `probability_<class>`, `decided`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.data.scoring.expected import example_rows, expected_of, named_rows
from kernelite.model import CompiledModel
from kernelite.model.serving import OnInvalid
from kernelite.program.bounded import Stats
from kernelite.support.errors import InputError

__all__ = ["OUTPUTS", "answer", "check_outputs", "column_names", "example", "label_text"]

OUTPUTS = ("label", "score", "probability", "decided")
Answer: TypeAlias = tuple[NDArray[Any], Stats | None]
Method: TypeAlias = "Callable[..., Answer]"  # of rows, and on_invalid and beyond by name


def check_outputs(model: CompiledModel, outputs: Sequence[str]) -> tuple[str, ...]:
    """The names of the wanted outputs, or an error that says which the model has.

    Parameters
    ----------
    model : CompiledModel
    outputs : sequence of {"label", "score", "probability", "decided"}

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> import kernelite
    >>> fast = kernelite.compile(SVC().fit([[0.0, 1.0], [1.0, 0.0]], [0, 1]))
    >>> check_outputs(fast, ["label", "probability"])
    Traceback (most recent call last):
    kernelite.InputError: this model has no output 'probability'; ... label, score, decided.
    """
    if isinstance(outputs, str):
        outputs = (outputs,)
    if not outputs:
        raise InputError(f"`outputs` must name at least one of {', '.join(OUTPUTS)}.")
    known = [name for name in OUTPUTS if _METHODS[name](model) is not None]
    for name in outputs:
        if name not in known:
            raise InputError(
                f"this model has no output {name!r}; those it has are: {', '.join(known)}."
            )
    return tuple(dict.fromkeys(outputs))


def answer(
    model: CompiledModel,
    output: str,
    rows: Any,
    on_invalid: OnInvalid | None = None,
    beyond: FloatArray | None = None,
) -> Answer:
    """One output for a block of rows, shape (m,) or (m, columns), and stats where it has them.

    Parameters
    ----------
    model : CompiledModel
    output : {"label", "score", "probability", "decided"}
    rows : array, sparse array or data frame of shape (m, d)
    on_invalid : {"warn", "raise", "ignore"}, optional
    beyond : ndarray of shape (m,), optional
        Squared norms of the features beyond the model's width.
    """
    method = _METHODS[output](model)
    assert method is not None
    if isinstance(rows, np.ndarray):
        expected = expected_of(model)
        if expected.frames and expected.names is not None:  # a transformer may select by name
            rows = named_rows(rows, expected.names)
    options = {"on_invalid": on_invalid} | ({} if beyond is None else {"beyond": beyond})
    return method(rows, **options)


def example(model: CompiledModel, output: str) -> NDArray[Any]:
    """An output for one row of any content: what shows its shape and type.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> import kernelite
    >>> fast = kernelite.compile(SVC().fit([[0.0, 1.0], [1.0, 0.0]], ["no", "yes"]))
    >>> example(fast, "label").dtype
    dtype('<U3')
    """
    return answer(model, output, example_rows(model), "ignore")[0]


def column_names(model: CompiledModel, output: str, n_columns: int | None) -> list[str]:
    """The columns of one output.

    Parameters
    ----------
    model : CompiledModel
    output : str
    n_columns : int, optional
        How many there are; None for an answer of one dimension.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> import kernelite
    >>> X, y = load_iris(return_X_y=True)
    >>> fast = kernelite.compile(SVC().fit(X, y), X)
    >>> column_names(fast, "label", None), column_names(fast, "score", 3)
    (['label'], ['score_0', 'score_1', 'score_2'])
    """
    stem = _stem(model, output)
    if n_columns is None:
        return [stem]
    names = _class_names(model, output)
    if names is None or len(names) != n_columns or len(set(names)) != n_columns:
        names = [str(number) for number in range(n_columns)]
    return [f"{stem}_{name}" for name in names]


def _stem(model: CompiledModel, output: str) -> str:
    if output != "label":
        return output
    names = {"regressor": "prediction", "transform": "component", "density": "score"}
    return names.get(model.head.kind, "label")


def _class_names(model: CompiledModel, output: str) -> list[str] | None:
    head = model.head
    if head.kind == "outlier":
        return ["normal", "outlier"]  # svm-predict's words
    classes = head.classes
    if classes is None or output == "label":
        return None
    if isinstance(classes, list):  # several outputs, each with labels of its own
        return [f"{i}_{label}" for i, labels in enumerate(classes) for label in labels.tolist()]
    labels = [label_text(label) for label in classes.tolist()]
    pairs = head.scores_are_pairs and head.decides_by_scores
    if output == "score" and pairs and len(labels) > 2:
        return [f"{a}_vs_{b}" for i, a in enumerate(labels) for b in labels[i + 1 :]]
    return labels


def label_text(label: Any) -> str:
    """A label or value with all its digits, as svm-predict's %.17g.

    Examples
    --------
    >>> label_text(1.0), label_text(0.1), label_text("yes")
    ('1', '0.10000000000000001', 'yes')
    """
    return f"{label:.17g}" if isinstance(label, float) else str(label)


# How each output is had; None where the model has it not ------------------------------------------


def _label(model: CompiledModel) -> Method | None:
    if "predict" in model.offers:
        return lambda rows, **options: model.predict(rows, return_stats=True, **options)
    name = "transform" if "transform" in model.offers else "score_samples"
    method = getattr(model, name)
    return lambda rows, **options: (np.asarray(method(rows, **options)), None)


def _score(model: CompiledModel) -> Method | None:
    if "decision_function" not in model.offers:
        return None
    return lambda rows, **options: (model.decision_function(rows, **options), None)


def _probability(model: CompiledModel) -> Method | None:
    if "predict_proba" not in model.offers:
        return None

    def probabilities(rows: Any, **options: Any) -> Answer:
        found: Any = model.predict_proba(rows, **options)
        return (np.hstack(found) if isinstance(found, list) else found), None

    return probabilities


def _decided(model: CompiledModel) -> Method | None:
    """Rows whose label is proven to be the exact model's."""
    if not model.head.proves_labels:
        return None
    if "predict" in model.head.needs_posterior:
        return None  # such labels are computed exactly, and not proven
    forms = [model.approximation, *(part.model.approximation for part in model.parts)]
    uncertified = any(form is not None and not form.certified for form in forms)
    if model.guarantee == "calibrated" or (model.guarantee == "none" and uncertified):
        return None  # statistical, or nothing is known
    return lambda rows, beyond=None, **_: (model.decided(rows, beyond=beyond), None)


_METHODS: dict[str, Callable[[CompiledModel], Method | None]] = {
    "label": _label,
    "score": _score,
    "probability": _probability,
    "decided": _decided,
}
