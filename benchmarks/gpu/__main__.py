"""`python -m benchmarks gpu`: verify, attack, then time; JSON with device and versions."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.results import FOLDER, plain

__all__ = ["main", "versions"]

SECTIONS = ("fused", "several", "forms", "streaming", "verify", "attack", "assumed")
EXTRA = ("tune",)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the sections asked for, on the first CUDA device."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu", description=__doc__)
    parser.add_argument("--sections", nargs="+", choices=SECTIONS + EXTRA, default=SECTIONS)
    parser.add_argument("--prepared", type=Path, default=Path("benchmarks/cache/gpu"))
    parser.add_argument("--prepare", action="store_true", help="only write what --prepared reads")
    parser.add_argument("--models", type=int, default=10_000, help="random models to attack")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=360.0, help="of the attack, at most")
    parser.add_argument("--device", default="cuda", help="of verify and attack; others need a GPU")
    parser.add_argument("--out", type=Path, default=FOLDER / "gpu.json")
    parser.add_argument("--commit", default="unknown", help="which code it is, for the page")
    parser.add_argument("--add", action="store_true", help="keep the sections that --out holds")
    args = parser.parse_args(argv)
    if args.prepare:
        from benchmarks.gpu.models import prepare

        print(f"prepared: {', '.join(prepare(args.prepared))}")
        return 0
    content: dict[str, Any] = {}
    if args.add and args.out.is_file():
        content = json.loads(args.out.read_text(encoding="utf-8"))["content"]
    for section in args.sections:
        print(f"-- {section}", flush=True)
        content[section] = _run(section, args, content)
        print(json.dumps(plain(content[section]), indent=1), flush=True)
        _save(args.out, content, args.commit)
    return 0


def _run(section: str, args: argparse.Namespace, before: dict[str, Any]) -> Any:
    from benchmarks.gpu.samples import save_samples

    if section == "assumed":
        from benchmarks.gpu import tensor_cores

        return {
            "sums, of l 2^-22": tensor_cores.sum_errors(args.device, 2000),
            "integer sums that were not exact": tensor_cores.exact_sums(args.device, 2000),
            "exp2": tensor_cores.exp2_errors(args.device),
        }
    if section == "attack":
        from benchmarks.gpu.attack import attack_together, merged

        found = attack_together(args.models, args.seed, args.device, args.seconds)
        save_samples(args.out.with_name(f"samples-{args.seed}.npz"), found.pop("samples"))
        more = merged([before[section], found] if section in before else [found])
        return {name: part for name, part in more.items() if name != "samples"}
    if section == "verify":
        from benchmarks.gpu.verify import verify

        lines, samples = verify(args.prepared, args.device)
        save_samples(args.out.with_name("real.npz"), samples)
        return lines
    from benchmarks.gpu import speed

    return getattr(speed, section)()


def _save(path: Path, content: dict[str, Any], commit: str) -> None:
    import torch

    from benchmarks.gpu.small import described

    document = described(content, commit)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()  # processes of the next section want memory too
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def versions() -> dict[str, str]:
    """Of Python and of what the figures depend on."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for name in ("kernelite", "torch", "triton", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            import kernelite

            found[name] = kernelite.__version__
    return found


if __name__ == "__main__":
    sys.exit(main())
