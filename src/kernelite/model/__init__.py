"""CompiledModel: what `kernelite.compile` returns and `kernelite.load` reads.

In layers, each a file: `fields` (what a model is made of; `checks`, `part`, `origin`, `runners`),
`predicting`, `transforming`, `contract` (what scikit-learn's own functions ask), `compiled`.
`serving` takes rows to answers; `moments` gives the variances of Gaussian processes, `validity`
tells of rows outside the paper's bound, `html` shows a model in a notebook.
"""

from __future__ import annotations

from kernelite.model.compiled import CompiledModel
from kernelite.model.origin import Guarantee, Origin
from kernelite.model.part import ModelPart

__all__ = ["CompiledModel", "Guarantee", "ModelPart", "Origin"]
