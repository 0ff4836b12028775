"""CompiledModel: what `kernelite.compile` returns and `kernelite.load` reads.

`compiled` is the model itself; `contract` and `offering` make it an estimator for scikit-learn's
own functions, `moments` answers what Gaussian processes are asked besides, `validity` tells of rows
outside the paper's bound, `html` shows a model in a notebook.
"""

from __future__ import annotations

from kernelite.model.compiled import CompiledModel, Guarantee, ModelPart, Origin

__all__ = ["CompiledModel", "Guarantee", "ModelPart", "Origin"]
