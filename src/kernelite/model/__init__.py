"""CompiledModel: what `kernelite.compile` returns and `kernelite.load` reads.

Each class adds one concept to the one before: `fields` (what a model is made of; `checks`, `part`,
`origin`, `runners`), `contract` (an estimator, to scikit-learn's own functions), `predicting` (what
it answers), `compiled` (what is proven of that; files and reports).
`serving` takes rows to answers; `moments` gives the variances of Gaussian processes, `validity`
tells of rows outside the paper's bound, `html` shows a model in a notebook.
"""

from __future__ import annotations

from kernelite.model.compiled import CompiledModel
from kernelite.model.fields import Guarantee, ModelPart, Origin

__all__ = ["CompiledModel", "Guarantee", "ModelPart", "Origin"]
