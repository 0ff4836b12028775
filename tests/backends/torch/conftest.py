"""Where torch is absent, nothing here is collected; without a GPU, Triton's interpreter runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

collect_ignore_glob = [] if find_spec("torch") is not None else ["*.py"]

if find_spec("torch") is not None:
    import torch

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"  # read when kernels are first loaded


def _allocations() -> int:
    """How many times memory of a GPU was asked for so far."""
    return int(torch.cuda.memory_stats().get("allocation.all.allocated", 0))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[Any]:
    """Note for the summary whether the test used a GPU."""
    before = _allocations() if torch.cuda.is_available() else None
    try:
        return (yield)
    finally:
        on_cuda = before is not None and _allocations() > before
        item.user_properties.append(("on CUDA", on_cuda))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say on which device the tests ran, and how many of them took part there."""
    if find_spec("torch") is None:
        return
    from tests.backends.torch.devices import NO_CUDA

    ran = [
        dict(report.user_properties)["on CUDA"]
        for kind in ("passed", "failed")
        for report in terminalreporter.stats.get(kind, [])
        if report.when == "call" and "on CUDA" in dict(report.user_properties)
    ]
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    missed = sum(NO_CUDA in reason for reason in reasons)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else NO_CUDA
    terminalreporter.write_line(
        f"torch {torch.__version__}, {device}: {sum(ran)} of {len(ran)} tests ran on CUDA, "
        f"{missed} skipped for want of one."
    )
