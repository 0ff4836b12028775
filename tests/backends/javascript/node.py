"""One Node process that imports modules and answers rows, as JSON lines."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["NODE", "Node"]

NODE = shutil.which("node")
DRIVER = """
import { createInterface } from "node:readline";
const plain = (key, x) => (typeof x === "number" && !Number.isFinite(x) ? String(x) : x);
for await (const line of createInterface({ input: process.stdin })) {
  const { file, rows, name } = JSON.parse(line);
  try {
    const module = await import(file);
    const found = name === "about" ? module.about : module[name](rows);
    console.log(JSON.stringify({ found }, plain));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}
"""


class Node:
    """The process; a context that ends it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        driver = folder / "driver.mjs"
        driver.write_text(DRIVER)
        pipe: Any = subprocess.PIPE
        self._process = subprocess.Popen(
            [str(NODE), str(driver)], stdin=pipe, stdout=pipe, text=True, encoding="utf-8"
        )

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def ask(self, text: str, rows: Any, name: str = "answer") -> Any:
        """What a function of a module makes of rows; an error of the module's as `Refused`."""
        self._count += 1
        file = self._folder / f"module{self._count}.mjs"
        file.write_text(text, encoding="utf-8")
        given = rows.tolist() if isinstance(rows, np.ndarray) else rows
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"file": str(file), "rows": given, "name": name}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        if "error" in told:
            raise Refused(told["error"])
        return told["found"]


class Refused(Exception):
    """What the module threw."""
