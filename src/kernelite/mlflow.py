"""MLflow: compiled models in a tracking store, as a flavor of their own and as a pyfunc.

A saved model is a folder with `model.kernelite`, MLflow's `MLmodel` and its lists of requirements.
Nothing in it is pickled.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

from kernelite import __version__
from kernelite.model import CompiledModel, require_compiled
from kernelite.store.files import load, save
from kernelite.support.errors import InputError, optional

__all__ = ["load_model", "log_model", "save_model"]

FLAVOR = "kernelite"
FILE = "model.kernelite"


def save_model(
    model: CompiledModel,
    path: str | os.PathLike[str],
    *,
    signature: Any = None,
    input_example: Any = None,
    metadata: dict[str, Any] | None = None,
    pip_requirements: list[str] | str | None = None,
    extra_pip_requirements: list[str] | str | None = None,
    mlflow_model: Any = None,
) -> None:
    """Write a model as a folder that MLflow can serve.

    Parameters
    ----------
    model : CompiledModel
    path : path-like
        A folder that does not exist yet, or is empty.
    signature : mlflow.models.ModelSignature, optional
        By default inferred from `input_example`, if there is one.
    input_example : array-like or data frame, optional
        A few rows, kept beside the model.
    metadata : dict, optional
        Kept in the `MLmodel` file.
    pip_requirements, extra_pip_requirements : list of str or path, optional
        As for MLflow's own flavors; by default this version of kernelite.
    mlflow_model : mlflow.models.Model, optional
        What the flavors are added to; MLflow passes it when it logs.
    """
    mlflow = _mlflow()
    require_compiled(model)
    folder = Path(path)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"`{folder}` exists already; name a folder that is new or empty.")
    entry = mlflow_model if mlflow_model is not None else mlflow.models.Model()
    if signature is None and input_example is not None:
        signature = mlflow.models.infer_signature(input_example, model.predict(input_example))
    if signature is not None:
        entry.signature = signature
    if metadata is not None:
        entry.metadata = metadata
    folder.mkdir(parents=True, exist_ok=True)
    if input_example is not None:
        mlflow.models.utils._save_example(entry, input_example, str(folder))
    save(model, folder / FILE)
    _write_environment(folder, pip_requirements, extra_pip_requirements)
    _add_flavors(entry, model)
    entry.save(str(folder / "MLmodel"))


def log_model(model: CompiledModel, name: str = "model", /, **options: Any) -> Any:
    """Log a model to the active MLflow run, or to a new one.

    Parameters
    ----------
    model : CompiledModel
    name : str
        What it is called there.
    **options
        Those of `save_model`, and of MLflow's `Model.log` (`registered_model_name`, ...).

    Returns
    -------
    mlflow.models.model.ModelInfo
    """
    log = _mlflow().models.Model.log
    # MLflow 3 names a model; before, it was the path of an artifact.
    key = "name" if "name" in inspect.signature(log).parameters else "artifact_path"
    where = {"artifact_path": None, "name": name} if key == "name" else {"artifact_path": name}
    return log(flavor=sys.modules[__name__], model=model, **where, **options)


def load_model(model_uri: str, /, *, dst_path: str | None = None) -> CompiledModel:
    """Load a model that `save_model` or `log_model` wrote.

    Parameters
    ----------
    model_uri : str
        A path, `runs:/...`, `models:/...`, as MLflow has them.
    dst_path : str, optional
        Where to put what has to be downloaded.

    Returns
    -------
    CompiledModel
    """
    mlflow = _mlflow()
    from mlflow.tracking.artifact_utils import _download_artifact_from_uri

    folder = Path(_download_artifact_from_uri(artifact_uri=str(model_uri), output_path=dst_path))
    flavors = mlflow.models.Model.load(str(folder)).flavors
    if FLAVOR not in flavors:
        known = ", ".join(sorted(flavors)) or "none"
        raise InputError(f"`{model_uri}` holds no kernelite model; its flavors: {known}.")
    return load(_inside(folder, flavors[FLAVOR]["data"]))


class _Served:
    """What MLflow's scoring servers call."""

    def __init__(self, model: CompiledModel) -> None:
        self.model = model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Answers of `predict`, or of the method that `params["method"]` names."""
        method = (params or {}).get("method", "predict")
        if method not in self.model.offers:
            known = ", ".join(sorted(self.model.offers))
            raise InputError(f"`method` must be one of {known}, got {method!r}.")
        return getattr(self.model, method)(model_input)

    def get_raw_model(self) -> CompiledModel:
        """The compiled model itself."""
        return self.model


def _load_pyfunc(path: str) -> _Served:
    """What MLflow calls to serve: with the path of the file that the flavor names."""
    file = Path(path)
    return _Served(load(file / FILE if file.is_dir() else file))


def _add_flavors(entry: Any, model: CompiledModel) -> None:
    from mlflow import pyfunc

    pyfunc.add_to_model(
        entry,
        loader_module="kernelite.mlflow",
        data=FILE,
        conda_env="conda.yaml",
        python_env="python_env.yaml",
    )
    entry.add_flavor(
        FLAVOR,
        kernelite_version=__version__,
        data=FILE,
        guarantee=model.guarantee,
        plan=model.plan.summary,
        source=model.origin.description,
    )


def _write_environment(folder: Path, requirements: Any, extra: Any) -> None:
    from mlflow.utils.environment import _mlflow_conda_env, _process_pip_requirements, _PythonEnv

    conda, wanted, constraints = _process_pip_requirements(
        [f"kernelite=={__version__}"], requirements, extra
    )
    conda = conda or _mlflow_conda_env(additional_pip_deps=wanted)
    # JSON is YAML.
    (folder / "conda.yaml").write_text(json.dumps(conda, indent=1) + "\n", encoding="utf-8")
    (folder / "requirements.txt").write_text("\n".join(wanted) + "\n", encoding="utf-8")
    if constraints:
        (folder / "constraints.txt").write_text("\n".join(constraints) + "\n", encoding="utf-8")
    _PythonEnv.current().to_yaml(str(folder / "python_env.yaml"))


def _inside(folder: Path, name: object) -> Path:
    """The file of that name in the folder: `MLmodel` may come from a stranger."""
    file = folder / str(name)
    if file.resolve().parent != folder.resolve():
        raise InputError(f"the model's file `{name}` must lie in its own folder.")
    return file


def _mlflow() -> Any:
    for module in ("mlflow.models.utils", "mlflow"):
        found = optional(module, "this needs MLflow", "mlflow-skinny pandas", "mlflow")
    return found
