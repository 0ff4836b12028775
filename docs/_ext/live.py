"""The live picture of the first page: two exports of one small model, loaded by the page itself.

Writes `_static/live-models.js` into the built site: the form alone, which says what is proven, and
the exact model, as kernelite's own JavaScript exports. They are wrapped as a plain script, since
browsers load no modules from the file system.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sphinx.application import Sphinx

GAMMA = 0.35


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the script when the pages are there."""
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        folder = Path(app.outdir, "_static")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "live-models.js").write_text(live_models(), encoding="utf-8")


def live_models() -> str:
    """A script that sets `kerneliteLive`: the form, the exact model, and the training rows."""
    from sklearn.svm import SVC

    import kernelite as kl
    from kernelite.backends.javascript import to_javascript

    rng = np.random.default_rng(3)
    rows = rng.normal(size=(400, 2)) * 0.8
    side = rows[:, 1] + 0.5 * np.sin(2 * rows[:, 0]) + rng.normal(0, 0.35, 400) > 0
    labels = np.where(side, "blue", "orange")
    svc = SVC(gamma=GAMMA, C=3).fit(rows, labels)
    fast = kl.compile(svc, rows, plan="form")
    form = to_javascript(fast, part="approximation", decided=True)
    exact = to_javascript(fast, part="exact")
    shown = {"rows": np.round(rows, 3).tolist(), "labels": labels.tolist()}
    shown["vectors"] = int(svc.n_support_.sum())
    return (
        "window.kerneliteLive = {\n"
        f"  form: {_plain_script(form)},\n  exact: {_plain_script(exact)},\n"
        f"  shown: {json.dumps(shown)},\n}};\n"
    )


def _plain_script(module: str) -> str:
    """An ES module as an expression: an object of what it exports."""
    names = re.findall(r"^export (?:const|function) (\w+)", module, re.MULTILINE)
    body = re.sub(r"^export ", "", module, flags=re.MULTILINE)
    return f"(() => {{\n{body}\nreturn {{ {', '.join(names)} }};\n}})()"
