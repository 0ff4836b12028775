"""CompiledModel: what `kernelite.compile` returns and `kernelite.load` reads.

Each class adds one concept to the one before: `fields` (what a model is made of, its parts and
origin; `checks` says whether that fits together), `contract` (an estimator, to scikit-learn's own
functions and in notebooks), `predicting` (what it answers, and how rows become answers), `compiled`
(what is proven of that; files and reports). `serving` checks rows, lays engines out, and tells of
rows outside the paper's bound; `moments` gives the variances of Gaussian processes.
"""

from __future__ import annotations

from kernelite.model.compiled import CompiledModel, require_compiled
from kernelite.model.fields import Guarantee, ModelPart, Origin

__all__ = ["CompiledModel", "Guarantee", "ModelPart", "Origin", "require_compiled"]
