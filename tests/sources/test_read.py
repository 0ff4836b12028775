"""The dispatch of `read`: what is accepted, and how the rest is refused."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import ClassifierHead, RegressorHead
from kernelite.sources import READERS, Machine, read
from kernelite.support.errors import FileFormatError, InputError, UnsupportedModelError

BUMP = KernelExpansion([[0.0, 0.0], [1.0, 1.0]], [[2.0], [1.0]], [0.5], gamma=1.0)


def test_arrays_are_a_regressor_unless_a_head_comes_with_them():
    source = read(BUMP)
    assert isinstance(source.head, RegressorHead)
    assert (source.family, source.type_name, source.width_is_open) == ("arrays", "regressor", False)
    head = ClassifierHead(np.array([3, 5]))
    assert read((BUMP, head)).head is head


def test_a_source_is_itself():
    source = read(BUMP)
    assert read(source) is source


def test_a_head_of_another_size_is_refused():
    with pytest.raises(InputError, match="expects 3 scores a row, but `expansion` has 1"):
        read((BUMP, ClassifierHead(np.array([1, 2, 3]))))
    with pytest.raises(InputError, match=r"must be \(KernelExpansion, Head\), got \(int, int\)"):
        read((1, 2))


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (3, "`builtins.int`"),
        (None, "`builtins.NoneType`"),
        (KernelExpansion, "the class `KernelExpansion` (not an instance)"),
        (np.eye(2), "`numpy.ndarray`"),
    ],
)
def test_unknown_models_are_refused_by_name(model, found):
    with pytest.raises(UnsupportedModelError) as caught:
        read(model)
    message = str(caught.value)
    assert found in message
    assert "SVC, SVR, KernelRidge and " in message
    assert "paths of LIBSVM models" in message
    assert message.count(".") - found.count(".") - message.count("models.md") == 1  # one sentence


def test_a_namesake_of_another_library_is_refused():
    namesake = type("SVC", (), {"__module__": "elsewhere.svm"})()
    with pytest.raises(UnsupportedModelError, match=r"elsewhere\.svm\.SVC"):
        read(namesake)


def test_a_missing_file_is_named():
    with pytest.raises(FileFormatError, match=r"no/such\.model: there is no such file"):
        read("no/such.model")


def test_readers_exist():
    from importlib import import_module

    for target in READERS.values():
        module, _, function = target.partition(":")
        assert callable(getattr(import_module(module), function))


def test_reading_a_file_imports_no_other_library():
    code = (
        "import sys, kernelite.sources as s\n"
        "try: s.read('no/such.model')\n"
        "except ValueError: pass\n"
        "print(sorted({'sklearn', 'scipy', 'numba'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_source_is_frozen():
    source = read(BUMP)
    assert isinstance(source, Machine)
    with pytest.raises(AttributeError):
        source.family = "other"  # type: ignore[misc]
