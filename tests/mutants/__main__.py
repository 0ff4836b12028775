"""`python -m tests.mutants`: change a copy of the source, one place at a time; tests must fail.

`list.txt` holds the changes, each with the tests that are run; its head says how it is written.
What was found is kept in `mutants-state.json`: a run that was ended goes on from there, and a
change is tried again when its file or its tests are others than then.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["LIST", "PACKAGE", "ROOT", "Mutant", "main", "mutants"]

ROOT = Path(__file__).parents[2]
PACKAGE = Path("src/kernelite")
LIST = Path(__file__).with_name("list.txt")
STATE = ROOT / "mutants-state.json"
COPIED = ("conftest.py", "pyproject.toml", "docs", "tests")
LEAST_SHARE = 0.95  # of all changes that tests must notice
# A change of these files makes the library of kernels one of other sources; in the first, kernels
# themselves change, and are compiled anew in every process.
KERNELS = ("backends/cpu/kernels/", "data/tables/libsvm_kernel.py", "explain/kernels.py")
CONSTANTS = ("series/rounding.py", "series/remainder.py", "program/bounded.py")


@dataclass(frozen=True)
class Mutant:
    """A text of a file that is replaced by another, and the tests that must notice.

    Parameters
    ----------
    file : str
        In the package.
    old, new : str
    tests : tuple of str
        As pytest takes them.
    reason : str
        Why nothing can notice it; empty where something must.
    """

    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    reason: str = ""

    @property
    def kernels(self) -> str:
        """Who provides kernels: $KERNELITE_KERNELS."""
        if self.file.startswith(KERNELS):
            return "numba"
        return "numpy" if self.file in CONSTANTS else ""

    @property
    def key(self) -> str:
        """Changes with the change, its file and its tests."""
        state = hashlib.sha256(repr((self.file, self.old, self.new, self.tests)).encode())
        for path in (PACKAGE / self.file, *(test.partition("::")[0] for test in self.tests)):
            state.update((ROOT / path).read_bytes())
        return state.hexdigest()[:24]

    def __str__(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.file}: `{old}` -> `{new}`"


def mutants(text: str) -> Iterator[Mutant]:
    """The changes of a list.

    Examples
    --------
    >>> text = '''@ a.py
    ... tests/test_a.py
    ... - x > 0
    ... + x >= 0
    ... = x is never zero.
    ... '''
    >>> [(one.file, one.old, one.new, one.reason) for one in mutants(text)]
    [('a.py', 'x > 0', 'x >= 0', 'x is never zero.')]
    """
    file, before = "", ""
    tests: list[str] = []
    found: dict[str, list[str]] = {"-": [], "+": [], "=": []}

    def made() -> Iterator[Mutant]:
        if before in ("+", "="):
            old, new = ("\n".join(found[sign]) for sign in "-+")
            yield Mutant(file, old, new, tuple(tests), " ".join(found["="]))
            found.update({"-": [], "+": [], "=": []})

    for line in (*text.splitlines(), "@"):
        sign = "t" if line.startswith("tests/") else line[:1]
        if sign in ("#", ""):
            continue
        if sign in ("-", "@", "t") and before != sign:
            yield from made()
        if sign == "@":
            file = line[2:].strip()
        elif sign == "t":
            tests = [*(tests if before == "t" else []), *line.split(" ")]
        elif sign in found:
            found[sign].append(line[2:])
        else:
            raise ValueError(f"a line of the list begins with {sign!r}: {line!r}")
        before = sign


class Copy:
    """A copy of the tree, in which one text at a time is another.

    Parameters
    ----------
    folder : Path
        An empty one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        without = shutil.ignore_patterns("*.pyc", ".hypothesis")
        shutil.copytree(ROOT / "src", folder / "src", ignore=without)  # with its library
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=without)
            else:
                shutil.copy2(ROOT / name, folder / name)
        self.seconds: dict[tuple[tuple[str, ...], str], float | None] = {}

    def unchanged(self, mutant: Mutant) -> float | None:
        """How long its tests take without the change; None, if they do not pass then."""
        known = mutant.tests, mutant.kernels
        if known not in self.seconds:
            result, seconds, output = self.run(mutant, 1800.0)
            passed = result == 0 and " passed" in output
            self.seconds[known] = seconds if passed else None
            if not passed:
                print(
                    f"{output}\nNot without a change either: {' '.join(mutant.tests)}", flush=True
                )
        return self.seconds[known]

    def tried(self, mutant: Mutant) -> dict[str, Any] | None:
        """What its tests say of the change; None where they can say nothing."""
        usual = self.unchanged(mutant)
        if usual is None:
            return None
        path = self.folder / PACKAGE / mutant.file
        before = path.read_text("utf-8")
        if before.count(mutant.old) != 1:
            raise SystemExit(f"The text does not occur once: {mutant}")
        for stale in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            stale.unlink()
        path.write_text(before.replace(mutant.old, mutant.new), "utf-8")
        try:
            result, seconds, _output = self.run(mutant, 60.0 + 10.0 * usual)
        finally:
            shutil.copy2(ROOT / PACKAGE / mutant.file, path)
        if result in (4, 5):
            raise SystemExit(f"No such tests: {' '.join(mutant.tests)}")
        found = "survived" if result == 0 else "timeout" if result is None else "failed"
        return {"found": found, "seconds": round(seconds, 1), "mutant": str(mutant)}

    def run(self, mutant: Mutant, limit: float) -> tuple[int | None, float, str]:
        """The tests' exit status (None: after too long), time and output."""
        begun = time.monotonic()
        with tempfile.TemporaryFile() as output:
            child = os.fork()
            if not child:
                self._in_child(mutant, output.fileno())
            result = None
            while result is None and time.monotonic() < begun + limit:
                time.sleep(0.05)
                done, status = os.waitpid(child, os.WNOHANG)
                result = os.waitstatus_to_exitcode(status) if done else None
            if result is None:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
            output.seek(0)
            return result, time.monotonic() - begun, output.read().decode("utf-8", "replace")

    def _in_child(self, mutant: Mutant, output: int) -> None:
        """Run pytest in the copy, and end. Imports of others' packages were done before."""
        status: int = 99
        try:
            os.setsid()
            os.chdir(self.folder)
            os.dup2(output, 1)
            os.dup2(output, 2)
            source = str(self.folder / "src")
            os.environ.update(PYTHONPATH=source, KERNELITE_KERNELS=mutant.kernels)
            for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
                del sys.modules[name]
            sys.path[:] = [source, *(path for path in sys.path if Path(path) != ROOT / "src")]
            spec = importlib.util.find_spec("kernelite")
            assert spec is not None
            assert (spec.origin or "").startswith(source)
            import pytest

            options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
            status = int(pytest.main([*options, *mutant.tests]))
        finally:
            sys.stdout.flush()
            os._exit(status)


def main(argv: Sequence[str] | None = None) -> int:
    """0 if tests notice enough of the changes."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="changes whose file or text contains this")
    parser.add_argument("--list", type=Path, default=LIST, help="of changes")
    parser.add_argument("--state", type=Path, default=STATE, help="what was found, kept all along")
    parser.add_argument("--seconds", type=float, default=1e9, help="after which no other begins")
    args = parser.parse_args(argv)
    listed = mutants(args.list.read_text("utf-8"))
    chosen = {one.key: one for one in listed if args.only in str(one)}
    state: dict[str, Any] = json.loads(args.state.read_text()) if args.state.exists() else {}
    _import_ahead()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        for number, (key, one) in enumerate(chosen.items()):
            if key in state or time.monotonic() - begun > args.seconds:
                continue
            found = copy.tried(one)
            if found is not None:
                state[key] = found
                args.state.write_text(json.dumps(state, indent=1))
                print(f"{number + 1}/{len(chosen)} {found['found']}: {one}", flush=True)
    return _report(chosen, state)


def _import_ahead() -> None:
    """What takes seconds and is not changed: each child has it from the start."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in ("pytest", "hypothesis.extra.numpy", "scipy.special", "sklearn.svm", "onnx"):
        if importlib.util.find_spec(name.partition(".")[0]) is not None:
            __import__(name)


def _report(chosen: dict[str, Mutant], state: dict[str, Any]) -> int:
    results = [(one, state.get(key, {}).get("found", "not tried")) for key, one in chosen.items()]
    survivors = [one for one, found in results if found == "survived"]
    tried = sum(found != "not tried" for _, found in results)
    for one in survivors:
        print(f"survives: {one}\n    {one.reason or 'and nobody has said why.'}")
    for one, found in results:
        if one.reason and found not in ("survived", "not tried"):
            print(f"noticed, though the list says that nothing can: {one}")
    killed = tried - len(survivors)
    print(f"{killed} of {tried} changes noticed; {len(chosen) - tried} not tried.")
    good = tried == len(chosen) and killed >= LEAST_SHARE * tried
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
