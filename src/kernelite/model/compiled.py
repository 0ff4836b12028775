"""CompiledModel: runs a compiled predictor, says what is proven, saves itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError
from kernelite.model.contract import ScikitLearnContract
from kernelite.model.serving import placed, rule_of
from kernelite.program.criteria import label_settles
from kernelite.rows.inputs import FloatArray

__all__ = ["CompiledModel"]


@dataclass(frozen=True, eq=False, repr=False)
class CompiledModel(ScikitLearnContract):
    """A compiled kernel machine. Made by `kernelite.compile` or `kernelite.load`.

    It answers as its source does: those of `predict`, `decision_function`, `predict_proba`,
    `transform`, ... that the source has, in the source's shapes. `plan` says what was chosen and
    why, `guarantee` what is promised. Immutable, hence safe to share between threads.
    """

    def error_bound(self, X: Any, /) -> FloatArray:
        """A proven bound on the error of the scores of each row, shape (m, k).

        Where values are served within a tolerance by the exact engine, it is the tolerance. It
        needs no support vectors, only the certificate's constants.
        """
        forms = [self.approximation, *(part.model.approximation for part in self.parts)]
        if any(form is not None and not form.certified for form in forms):
            raise InputError(
                "this model carries no certificate; compile it with `certificate=True` or with "
                "guarantee='certified'."
            )
        rows, runner = placed(self, X)
        rule = rule_of(self, label_settles(self.head, self.tolerance))
        return runner.bounds(rows, rule)

    def valid(self, X: Any, /) -> NDArray[np.bool_]:
        """Rows inside the paper's validity bound, shape (m,)."""
        rows, runner = placed(self, X)
        return runner.valid(rows)

    def save(self, path: str | os.PathLike[str], /) -> None:
        """Write a `.kernelite` file: safetensors with JSON metadata, never pickle."""
        from kernelite.store.files import save

        save(self, path)

    def export(self, path: str | os.PathLike[str], /, **options: Any) -> list[str]:
        """Write this model for another runtime: `.onnx` for a graph, `.h` for a C99 header.

        Parameters
        ----------
        path : path-like
            Ends in `.onnx` (needs the extra `onnx`) or `.h`.
        **options
            `part`, `decided`, `dtype`, `probabilities`, `name`, `main`, `sample`, as in
            `kernelite.export`.

        Returns
        -------
        list of str
            The files that were written, each whole or not at all.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import kernelite
        >>> bump = kernelite.KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0)
        >>> model = kernelite.compile(bump, guarantee="exact")
        >>> with TemporaryDirectory() as folder:
        ...     [file] = model.export(os.path.join(folder, "bump.h"))
        >>> os.path.basename(file)
        'bump.h'
        """
        from kernelite.export.files import export

        return export(self, path, **options)

    def report(
        self,
        X: Any,
        path: str | os.PathLike[str] | None = None,
        /,
        *,
        model: Any = None,
        exact: CompiledModel | None = None,
    ) -> str:
        """A page about this model and how it does on some rows; needs the extra `report`.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Rows; no labels needed.
        path : path-like, optional
            Where to write the page.
        model : estimator, optional
            The model that was compiled, to compare answers and speed with.
        exact : CompiledModel, optional
            The exact model, where this one holds no support vectors.

        Returns
        -------
        str
            HTML, self-contained.
        """
        from kernelite.report.page import report, write

        page = report(self, X, model=model, exact=exact)
        if path is not None:
            write(page, path)
        return page
