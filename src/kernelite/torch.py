"""Compiled models for torch: modules that answer tensors where they lie (extra `torch`).

`module(fast)` is a `torch.nn.Module` whose buffers hold the compiled program; `fast.predict(X)`
takes tensors too, and anything that speaks DLPack. docs/gpu.md says what is proven on a GPU.
"""

from __future__ import annotations

from kernelite.support.errors import missing_extra

try:
    import torch  # noqa: F401  # first, for the message
except ImportError as error:
    raise missing_extra("tensors need torch", "torch", "torch") from error

from kernelite.backends.torch.program import Answer, Program
from kernelite.backends.torch.streaming import predict
from kernelite.model import CompiledModel, require_compiled

__all__ = ["Answer", "Program", "module", "predict"]


def module(fast: CompiledModel, /) -> Program:
    """A compiled model as a torch module.

    Parameters
    ----------
    fast : CompiledModel

    Returns
    -------
    Program
        Called with rows of shape (m, d) on its device, it gives an `Answer`: scores, bounds, stage,
        labels. Scores are differentiable by rows that require a gradient: their derivatives are
        those of the exact model. It holds buffers alone, no parameters; `.to(device)` moves them,
        and a change of type (`.half()`) leaves them as they are, since the proofs are for these
        numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelite as kl
    >>> from sklearn.svm import SVC
    >>> rows = np.random.default_rng(0).normal(size=(200, 3))
    >>> machine = SVC(gamma=0.05).fit(rows, rows[:, 0] > 0.3)
    >>> fast = kl.compile(machine, rows)
    >>> answer = module(fast)(torch.from_numpy(rows))
    >>> bool((answer.labels.numpy() == fast.predict(rows)).all())
    True
    """
    require_compiled(fast, "fast")
    return Program(fast)
