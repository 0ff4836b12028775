"""`kernelite fetch NAME`: the paper's data sets, downloaded once and checked.

examples:
  kernelite fetch                        # list what there is
  kernelite fetch a9a ijcnn1
  kernelite fetch mnist --folder data

A file is kept only when it is whole, its rows and features are as many as they should be, and its
numbers are the known ones. Of sensit and epsilon no digest is known: their numbers are unverified,
and the list says so. A file that is there already is checked again. Files are found later in
$KERNELITE_DATA and in the cache folder ($KERNELITE_CACHE, or `kernelite` in your cache folder).
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from typing import Any

from kernelite.cli.arguments import add_json
from kernelite.cli.console import note, print_json, print_table
from kernelite.support.terminal import Progress

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("names", metavar="NAME", nargs="*", help="data set, or one of its files")
    parser.add_argument("--folder", metavar="DIR", help="where to (default: the cache folder)")
    parser.add_argument(
        "--from", dest="base", metavar="ADDRESS", help="a mirror of LIBSVM's data page, https"
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="accept a mirror with http, where anybody on the way can change what comes",
    )
    parser.add_argument(
        "--unchecked",
        action="store_true",
        help="accept numbers that are not the known ones; rows and features must agree",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Download, or list."""
    from kernelite.data.datasets import BASE, download, files_of

    if not args.names:
        return _list(args)
    found = {}
    for file in (file for name in args.names for file in files_of(name)):
        with Progress(f"fetching, then checking {file.name}") as bar:
            path = download(
                file,
                args.folder,
                base=args.base or BASE,
                unchecked=args.unchecked,
                insecure=args.insecure,
                tell=bar.reach,
                tell_check=partial(bar.reach, total=file.rows),
            )
        known = "" if file.digest else ", unverified: no digest is known; rows and features agree"
        note(f"{file.name}: {os.path.getsize(path):,} bytes{known}", quiet=args.json)
        found[file.name] = str(path)
    if args.json:
        print_json(found)
    else:
        print("\n".join(found.values()))
    return 0


def _list(args: argparse.Namespace) -> int:
    from kernelite.data.datasets import SETS, files_of, find
    from kernelite.support.errors import InputError

    listed: list[dict[str, Any]] = []
    for name in SETS:
        for file in files_of(name):
            try:
                path = str(find(file.name))
            except InputError:
                path = None
            listed.append(
                {
                    "set": name,
                    "file": file.name,
                    "rows": file.rows,
                    "features": file.features,
                    "verified": file.digest is not None,
                    "path": path,
                }
            )
    if args.json:
        print_json(listed)
        return 0
    cells = [
        [
            *(entry["set"], entry["file"], f"{entry['rows']:,}", f"{entry['features']:,}"),
            *("by digest" if entry["verified"] else "unverified", entry["path"] or "-"),
        ]
        for entry in listed
    ]
    print_table(["set", "file", "rows", "features", "numbers", "here"], cells)
    return 0
