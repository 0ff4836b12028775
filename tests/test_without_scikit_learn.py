"""Saved models, LIBSVM's models and the command line need no scikit-learn; the rest says so.

Each test runs a script in a fresh interpreter in which scikit-learn and joblib cannot be imported.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelite as kl
from kernelite.support.errors import require_scikit_learn
from tests.models import MODELS, compiled, fitted

ROOT = Path(kl.__file__).parents[1]
BLOCKED = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("sklearn", "joblib"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
sys.path.insert(0, {str(ROOT)!r})
"""
ANSWERS = """
import pickle, sys
import numpy as np
import kernelite as kl
folder = sys.argv[1]
with open(folder + "/rows.pickle", "rb") as file:
    cases = pickle.load(file)
for name, (path, rows, answers) in cases.items():
    model = kl.load(path)
    for method, wanted in answers.items():
        found = getattr(model, method)(rows)
        assert np.asarray(found).dtype == np.asarray(wanted).dtype, (name, method)
        np.testing.assert_array_equal(found, wanted, err_msg=f"{name}, {method}")
print(len(cases))
"""
METHODS = ("predict", "decision_function", "predict_proba", "score_samples", "transform")


def run(script: str, *arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", BLOCKED + script, *map(str, arguments)]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True)


def said(script: str, *arguments: str | Path, folder: Path) -> str:
    ran = run(script, *arguments, folder=folder)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def stored(names: list[str], folder: Path) -> int:
    """Save models, with rows and their answers; how many could be saved."""
    cases: dict[str, Any] = {}
    for name in names:
        rows, path = fitted(name)[1], folder / f"{len(cases)}.kernelite"
        try:
            compiled(name).save(path)
        except kl.KerneliteError:
            continue  # those that hold Python objects
        model = kl.load(path)
        cases[name] = (
            str(path),
            rows,
            {m: getattr(model, m)(rows) for m in METHODS if hasattr(model, m)},
        )
    with open(folder / "rows.pickle", "wb") as file:
        pickle.dump(cases, file)
    return len(cases)


def test_saved_models_answer(tmp_path: Path) -> None:
    names = list(MODELS)[::9]
    count = stored(names, tmp_path)
    assert count > 15
    assert said(ANSWERS, tmp_path, folder=tmp_path) == f"{count}\n"


@pytest.mark.campaign
def test_all_saved_models_answer(tmp_path: Path) -> None:
    count = stored(list(MODELS), tmp_path)
    assert count > 0.8 * len(MODELS)
    assert said(ANSWERS, tmp_path, folder=tmp_path) == f"{count}\n"


LIBSVM = """
import numpy as np
import kernelite as kl
text = '''svm_type c_svc
kernel_type rbf
gamma 0.1
nr_class 2
total_sv 3
rho 0.125
label 1 -1
nr_sv 2 1
SV
1 1:0.5 2:1
0.5 1:-1 2:0.25
-1.5 1:0.1 2:-1
'''
with open("svm.model", "w") as file:
    file.write(text)
rows = np.random.default_rng(0).normal(size=(400, 2))
options = {"max_disagreement": 0.1, "on_invalid": "ignore"}
for guarantee in ("certified", "calibrated", "none", "exact"):
    model = kl.compile("svm.model", rows, guarantee=guarantee, **options)
    assert set(model.predict(rows)) == {1, -1}
kl.compile("svm.model", rows).save("svm.kernelite")
with open("rows.svm", "w") as file:
    file.writelines(f"1 1:{a} 2:{b}\\n" for a, b in rows)
"""


def test_libsvms_models_compile(tmp_path: Path) -> None:
    said(LIBSVM, folder=tmp_path)


def test_the_command_line_works(tmp_path: Path) -> None:
    said(LIBSVM, folder=tmp_path)
    script = "import sys\nfrom kernelite.cli import main\nsys.exit(main(sys.argv[1:]))"
    for words in (
        ["compile", "svm.model", "-o", "again.kernelite", "--sample", "rows.svm"],
        ["predict", "rows.svm", "svm.kernelite", "labels.txt"],
        ["predict", "rows.svm", "svm.model", "exact.txt", "--exact"],
        ["inspect", "svm.kernelite"],
        ["check", "rows.svm"],
        ["analyse", "rows.svm"],
        ["explain", "rows.svm", "svm.kernelite", "why.csv", "--background", "rows.svm"],
        ["export", "svm.kernelite", "-o", "svm.h"],
        ["export", "svm.kernelite", "-o", "svm.onnx"],
    ):
        said(script, *words, folder=tmp_path)
    assert (tmp_path / "labels.txt").read_text() == (tmp_path / "exact.txt").read_text()
    for words in (["demo"], ["xval", "rows.svm", "--folds", "3"]):
        ran = run(script, *words, folder=tmp_path)
        assert ran.returncode == 1
        assert ran.stderr.endswith(
            "scikit-learn: pip install scikit-learn (the extra `sklearn`).\n"
        ), ran.stderr


@pytest.mark.parametrize(
    ("statement", "need"),
    [
        ("kl.CompiledClassifier", "scikit-learn's estimators with compiled models need"),
        ("model.score([[0.0]], [1.0])", "`score` needs"),
    ],
)
def test_what_needs_it_says_so(statement: str, need: str, tmp_path: Path) -> None:
    script = f"""
import kernelite as kl
model = kl.compile(kl.KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0), guarantee="exact")
try:
    {statement}
except kl.MissingExtraError as error:
    print(error)
"""
    wanted = f"{need} scikit-learn: pip install scikit-learn (the extra `sklearn`).\n"
    assert said(script, folder=tmp_path) == wanted


def test_a_version_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted("svc binary")[0]
    monkeypatch.setattr("sklearn.__version__", "1.4.2")
    with pytest.raises(kl.MissingExtraError) as caught:
        kl.compile(model)
    assert str(caught.value) == (
        "compiling a SVC needs scikit-learn 1.5 or newer, and 1.4.2 is installed: "
        "pip install --upgrade scikit-learn (the extra `sklearn`)."
    )
    monkeypatch.setattr("sklearn.__version__", "2.0.dev0")
    require_scikit_learn("this needs")


def test_draws_need_none_either() -> None:
    """`sample_y` draws from the generators that scikit-learn takes."""
    name = next(name for name in MODELS if name.startswith("gpr"))
    model, rows = fitted(name)
    fast = compiled(name, "exact")
    seeded = fast.sample_y(rows[:3], random_state=3)
    given = fast.sample_y(rows[:3], random_state=np.random.RandomState(3))
    np.testing.assert_array_equal(seeded, given)
    np.testing.assert_allclose(seeded, model.sample_y(rows[:3], random_state=3), atol=1e-5)
    with pytest.raises(kl.InputError, match="`random_state` must be None"):
        fast.sample_y(rows[:3], random_state="x")
