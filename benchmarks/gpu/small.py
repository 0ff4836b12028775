"""Any batch size on one GPU: labels and values are checked, then timed.

    python -m benchmarks.gpu.small --prepare     # on any machine with scikit-learn
    python -m benchmarks.gpu.small               # on the GPU: microseconds and nanoseconds
    python -m benchmarks.gpu.small --page        # puts what was found into docs/gpu.md

`--prepare` fits and compiles the models, so that the machine with the GPU needs no scikit-learn.
Checked against sums in doubles by differences, in plain torch operations, or by the CPU's
definition of another kernel. A call is timed on the host's clock from the method's start to its
end, which waits for the answers. Kernels are compiled at a model's first call: `--check` does no
more than that, and checks, so that many can be made ready at a time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import kernelite as kl
from benchmarks.gpu.models import compiled, random_expansion, random_pairs

__all__ = ["described", "main", "prepare"]

ROWS = (1, 16, 64, 256, 1000, 4096)
MANY = 1 << 20
CALLS, ROUNDS = 60, 5
PAGE, START, END = Path("docs/gpu.md"), "<!-- small:start -->", "<!-- small:end -->"


def prepare(folder: Path) -> None:
    """Fit, compile and keep all models."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in MODELS.items():
        make().save(folder / f"{name}.kernelite")
        print(name, flush=True)


def _two_classes() -> Any:
    expansion = random_expansion(4793, 22)
    return compiled(expansion, kl.ClassifierHead(np.array([1, -1])), expansion.centers[:100])


def _form() -> Any:
    rng = np.random.default_rng(0)
    small = kl.KernelExpansion(rng.normal(size=(500, 22)), rng.normal(size=500), 0.1, gamma=0.01)
    sample = rng.normal(size=(200, 22)) * 0.5
    return compiled(small, kl.ClassifierHead(np.array([1, -1])), sample, "certified")


def _pairs(n: int, d: int, classes: int, *, probabilities: bool = False) -> Any:
    expansion, head = random_pairs(n, d, classes)
    if probabilities:
        head = _platt(np.arange(classes))
    return compiled(expansion, head, expansion.centers[:100])


def _platt(classes: Any) -> Any:
    """Sigmoids that are coupled, as scikit-learn couples those of two classes too."""
    count = len(classes) * (len(classes) - 1) // 2
    slopes = {"platt_a": np.full(count, -1.5), "platt_b": np.full(count, 0.1)}
    return kl.ClassifierHead(classes, couple_two_classes=True, **slopes)


def _two_probabilities() -> Any:
    expansion = random_expansion(1500, 8)
    return compiled(expansion, _platt(np.array([1, -1])), expansion.centers[:100])


def _regression(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, np.sin(X[:, 0] * X[:, 1]) + X[:, 2] ** 2 + X[:, 3] + rng.normal(size=n) * 0.1


def _ridge() -> Any:
    from sklearn.kernel_ridge import KernelRidge

    X, y = _regression(5000, 40)
    return kl.compile(KernelRidge(kernel="rbf", gamma=1 / 40, alpha=0.1).fit(X, y), X[:1000])


def _svr() -> Any:
    from sklearn.svm import SVR

    X, y = _regression(5000, 40)
    return kl.compile(SVR(gamma=1 / 40, epsilon=0.01).fit(X, y), X[:1000])


def _process() -> Any:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    X, y = _regression(1000, 10)
    kernel = RBF(3.0) + WhiteKernel(0.1)
    return kl.compile(GaussianProcessRegressor(kernel, optimizer=None).fit(X, y), X)


def _other(kernel: Any, n: int, d: int, classes: Any = None) -> Any:
    """A made-up model of another kernel: two classes, or a regression."""
    rng = np.random.default_rng(0)
    centers, a = rng.normal(size=(n, d)), rng.normal(size=n) / n
    expansion = kl.KernelExpansion(centers, a, 0.01, kernel=kernel)
    head = kl.RegressorHead() if classes is None else kl.ClassifierHead(classes)
    return compiled(expansion, head, centers[:100], "certified")


def _matern() -> Any:
    from kernelite.machine.kernels import Matern

    return _other(Matern((3.0,), 2.5), 2000, 10)


def _laplacian() -> Any:
    from kernelite.machine.kernels import Laplacian

    return _other(Laplacian(0.1), 2000, 20)


def _sigmoid() -> Any:
    from kernelite.machine.kernels import SigmoidKernel

    return _other(SigmoidKernel(0.05, -0.5), 2000, 20, np.array([1, -1]))


def _degree_5() -> Any:
    from kernelite.machine.kernels import PolynomialKernel

    return _other(PolynomialKernel(5, 0.05, 1.0), 2000, 20, np.array([1, -1]))


MODELS: dict[str, Callable[[], Any]] = {
    "two classes, 4,793 x 22": _two_classes,
    "two classes, a form, 22 features": _form,
    "3 classes, 3,000 x 10": lambda: _pairs(3000, 10, 3),
    "26 classes, 7,737 x 16": lambda: _pairs(7737, 16, 26),
    "probabilities of two classes, 1,500 x 8": _two_probabilities,
    "probabilities of 3 classes, 3,000 x 10": lambda: _pairs(3000, 10, 3, probabilities=True),
    "kernel ridge, 5,000 x 40": _ridge,
    "SVR, 5,000 x 40": _svr,
    "Gaussian process, 1,000 x 10": _process,
    "Matern, values, 2,000 x 10": _matern,
    "Laplacian, values, 2,000 x 20": _laplacian,
    "sigmoid, two classes, 2,000 x 20": _sigmoid,
    "degree 5, two classes, 2,000 x 20": _degree_5,
}


def method_of(name: str) -> str:
    """What is asked of a model."""
    return "predict_proba" if name.startswith("probabilities") else "predict"


def measured(name: str, fast: Any, device: str, *, check: bool = False) -> dict[str, Any]:
    """Answers checked, then microseconds of few rows and nanoseconds per row of many."""
    import torch

    generator = torch.Generator(device=device).manual_seed(1)
    d = fast.n_features_in_
    rows = torch.randn(MANY, d, dtype=torch.float64, device=device, generator=generator)
    if "form" in name:
        rows *= 0.5
    ask = getattr(fast, method_of(name))
    line: dict[str, Any] = {"model": name, "method": method_of(name)}
    line |= _checked(fast, ask, rows[:4096])
    if check:
        ask(rows)
        return line
    line["us"] = {str(m): _microseconds(ask, rows[:m]) for m in ROWS}
    line["ns per row, many"] = _per_row(ask, rows)
    if method_of(name) == "predict":
        line["share by stage"] = _stages(fast, rows)
    line["us, error_bound of 1,000"] = _microseconds(fast.error_bound, rows[:1000])["p50"]
    line["undecided"] = int((~fast.decided(rows[:4096])).sum())
    if fast.posterior is not None:
        wanted = rows[: 1 << 16]
        line["ns per row, with std"] = _per_row(lambda part: ask(part, return_std=True), wanted)
    return line


def _stages(fast: Any, rows: Any) -> dict[str, float]:
    stats = fast.predict(rows, return_stats=True)[1]
    return {name: count / len(rows) for name, count in stats.stages.items() if count}


def _checked(fast: Any, ask: Callable[[Any], Any], rows: Any) -> dict[str, Any]:
    """How answers differ from those of sums in doubles by differences, on all sizes."""
    scores = _exact(fast, rows)
    wanted = np.asarray(fast.head.answer(ask.__name__, scores))
    worst: dict[str, float] = {}
    for m in ROWS:
        found = ask(rows[-m:]).cpu().numpy()
        if found.dtype.kind in "iub":
            near = np.abs(scores[-m:]).min(axis=1) < 1e-9
            differ = int((found != wanted[-m:])[~near].sum())
            worst["labels that differ"] = worst.get("labels that differ", 0) + differ
        else:
            error = float(np.abs(found - wanted[-m:]).max())
            worst["largest error"] = max(worst.get("largest error", 0.0), error)
    if fast.tolerance is not None:
        worst["tolerance"] = float(np.max(fast.tolerance))
    return worst


def _exact(fast: Any, rows: Any) -> np.ndarray:
    """Scores in doubles by differences: shape (m, k)."""
    import torch

    expansion = fast.expansion
    if not expansion.has_series:
        own = expansion.kernel.values(rows.cpu().numpy(), expansion.dense_centers())
        return own @ expansion.coefficients + expansion.intercept
    X = torch.from_numpy(expansion.dense_centers()).to(rows.device)
    A = torch.from_numpy(expansion.coefficients).to(rows.device)
    b = torch.from_numpy(expansion.intercept).to(rows.device)
    found = []
    for part in rows.split(256):
        squares = torch.zeros(len(part), len(X), dtype=torch.float64, device=rows.device)
        for feature in range(rows.shape[1]):
            squares += (part[:, feature, None] - X[:, feature]).square()
        found.append(torch.exp(-expansion.gamma * squares) @ A + b)
    return torch.cat(found).cpu().numpy()


def _microseconds(ask: Callable[[Any], Any], rows: Any) -> dict[str, float]:
    """The best median of a few rounds of calls, and the ninetieth percentile of that round."""
    import torch

    for _ in range(5):
        ask(rows)
    # A call that ends while the device still works is waited for; most wait themselves.
    waits = not torch.cuda.current_stream().query()
    rounds = []
    for _ in range(ROUNDS):
        taken = []
        for _ in range(CALLS):
            begin = time.perf_counter()
            ask(rows)
            if waits:
                torch.cuda.synchronize()
            taken.append(1e6 * (time.perf_counter() - begin))
        rounds.append((statistics.median(taken), sorted(taken)[int(0.9 * CALLS)]))
    return dict(zip(("p50", "p90"), min(rounds)))


def _per_row(ask: Callable[[Any], Any], rows: Any, turns: int = 5) -> float:
    import torch

    taken = []
    for _ in range(turns + 1):
        begin = time.perf_counter()
        ask(rows)
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - begin)
    return 1e9 * min(taken[1:]) / len(rows)


def _of_host() -> dict[str, Any]:
    """Rows in host memory: a plain copy to the device is the limit; labels beside it."""
    import torch

    import kernelite.torch

    fast = _two_classes()
    found: dict[str, Any] = {"model": "two classes, 4,793 x 22, rows in host memory"}
    rows = torch.randn(1 << 21, 22, dtype=torch.float64)
    there = torch.empty_like(rows, device="cuda")
    for kind, given in (("pageable", rows), ("pinned", rows.pin_memory())):
        copied = _per_row(lambda part: there.copy_(part, non_blocking=True), given, 3)
        taken = _per_row(lambda part: kernelite.torch.predict(fast, part), given, 3)
        found |= {f"ns per row, copy, {kind}": copied, f"ns per row, predict, {kind}": taken}
    return found


def into_page(path: Path, document: dict[str, Any]) -> None:
    """Tables between the page's markers."""
    host, *models = document["content"]
    models = [line for line in models if "us" in line]
    sizes = " | ".join(f"{m:,}" for m in ROWS)
    table = [f"| microseconds of a call, by rows | {sizes} | ns per row of {MANY:,} | checked |"]
    table.append("| --- |" + " --: |" * (len(ROWS) + 2))
    for line in models:
        times = " | ".join(f"{line['us'][str(m)]['p50']:.0f}" for m in ROWS)
        labels = line.get("labels that differ")
        checked = f"error {line['largest error']:.0e}" if labels is None else f"{labels} differ"
        many = f"{line['ns per row, many']:.3g}"
        asked = f"{line['model']}, `{line['method']}`"
        table.append(f"| {asked} | {times} | {many} | {checked} |")
    text = f"{document['date']}, {document['device']}, commit {document['commit']}.\n\n"
    text += "\n".join(table)
    for line in models:
        if "ns per row, with std" in line:
            text += (
                "\n\nMeans with standard deviations of the Gaussian process take "
                f"{line['ns per row, with std']:.0f} ns per row."
            )
    text += (
        "\n\n| rows in host memory, ns per row | a plain copy, which is the limit | labels |\n"
        "| --- | --: | --: |\n"
    )
    for kind in ("pageable", "pinned"):
        copied, taken = (host[f"ns per row, {what}, {kind}"] for what in ("copy", "predict"))
        text += f"| {kind} | {copied:.3g} | {taken:.3g} |\n"
    page = path.read_text(encoding="utf-8")
    before, rest = page.split(START)
    path.write_text(f"{before}{START}\n{text}{END}{rest.split(END)[1]}", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare, or check and time."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.small", description=__doc__)
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--check", action="store_true", help="compare answers, and time nothing")
    parser.add_argument("--commit", default="unknown", help="which code it is, for the page")
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/cache/gpu-small"))
    parser.add_argument("--page", action="store_true", help="put what --out holds into docs/gpu.md")
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/gpu-small.json"))
    args = parser.parse_args(argv)
    if args.prepare:
        prepare(args.folder)
        return 0
    if args.page:
        into_page(PAGE, json.loads(args.out.read_text(encoding="utf-8")))
        return 0
    lines = [_of_host()] if not args.only and not args.check else []
    print(json.dumps(lines), flush=True)
    for name in MODELS:
        if args.only in name:
            fast = kl.load(args.folder / f"{name}.kernelite")
            try:
                lines.append(measured(name, fast, "cuda", check=args.check))
            except Exception as error:  # the others are worth their time all the same
                import traceback

                traceback.print_exc()
                lines.append({"model": name, "error": str(error)[:300]})
            print(json.dumps(lines[-1]), flush=True)
            args.out.parent.mkdir(parents=True, exist_ok=True)
            document = described(lines, args.commit)
            args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


def described(content: Any, commit: str) -> dict[str, Any]:
    """What was measured, and where: the day, the device, versions and the commit."""
    import torch

    from benchmarks.gpu.__main__ import versions
    from benchmarks.results import plain

    cuda = torch.cuda.is_available()
    return {
        "section": "gpu",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "device": f"one {torch.cuda.get_device_name()}" if cuda else "no GPU",
        "commit": commit,
        "versions": versions(),
        "content": plain(content),
    }


if __name__ == "__main__":
    sys.exit(main())
