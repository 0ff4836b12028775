"""The live picture of the first page: its two models agree with each other where one proves."""

from __future__ import annotations

import subprocess
from pathlib import Path
from runpy import run_path

import pytest

from tests.backends.javascript.node import NODE
from tests.docs.pages import DOCS

PROGRAM = """
globalThis.window = globalThis;
await import(process.argv[2]);
const { form, exact, shown } = kerneliteLive;
const rows = [];
for (let x = -3; x <= 3; x += 0.1) for (let y = -3; y <= 3; y += 0.1) rows.push([x, y]);
const quick = form.answer(rows), sure = exact.answer(rows);
const proven = quick.decided.filter(Boolean).length;
if (proven < rows.length / 20 || proven > rows.length * 0.98) throw new Error(`${proven} proven`);
quick.decided.forEach((yes, i) => {
  if (yes && quick.label[i] !== sure.label[i]) throw new Error(`row ${rows[i]}`);
  const off = Math.abs(quick.scores[i][0] - sure.scores[i][0]);
  if (off > quick.score_bound[i][0] + 1e-9) throw new Error(`bound of ${rows[i]}`);
});
console.log(proven, rows.length, shown.vectors);
"""


@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
def test_what_the_form_proves_the_exact_model_says(tmp_path: Path) -> None:
    script, program = tmp_path / "live-models.mjs", tmp_path / "program.mjs"
    script.write_text(run_path(str(DOCS / "_ext" / "live.py"))["live_models"](), encoding="utf-8")
    program.write_text(PROGRAM)
    done = subprocess.run(
        [str(NODE), str(program), str(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
