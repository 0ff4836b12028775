"""Where kernelite keeps files of its own, and whether a place is safe from other users.

What is loaded from a folder as code must not be written by others. As sshd does with keys: the
file, its folder and every folder above belong to the user or to root, and nobody else may write.
"""

from __future__ import annotations

import os
import stat
import sys
from functools import cache
from pathlib import Path

__all__ = ["cache_folder", "open_to_others", "why_distrusted"]


def cache_folder() -> Path:
    """Where downloads and kernels are kept: $KERNELITE_CACHE, or the user's cache folder."""
    if own := os.environ.get("KERNELITE_CACHE"):
        return Path(own)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kernelite"


def why_distrusted(folder: Path, /) -> str | None:
    """Why others could change what lies in a folder; None if they cannot.

    Parameters
    ----------
    folder : Path
        One that need not exist: then what counts is where it would be made.

    Returns
    -------
    str or None
        A clause such as "`/tmp/x` can be written by everybody". Where there are no POSIX
        permissions (Windows), None: a user's cache folder is the user's there.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     os.chmod(folder, 0o777)
    ...     bool(why_distrusted(Path(folder))) or os.name == "nt"
    True
    """
    if not hasattr(os, "geteuid"):
        return None
    try:
        real = folder.resolve()
        while not real.exists():
            real = real.parent
            folder = real
        for part in (real, *real.parents):
            reason = open_to_others(part.stat(), above=part != folder.resolve())
            if reason is not None:
                return f"`{part}` {reason}"
    except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError
        return f"`{folder}` cannot be examined ({error})"
    return None


def open_to_others(state: os.stat_result, *, above: bool = False) -> str | None:
    """Why others could change a file or folder of this state; None if they cannot.

    `above`: it only leads to what is meant. Then a sticky folder such as /tmp will do, in which
    nobody can replace what belongs to somebody else.
    """
    if not hasattr(os, "geteuid"):
        return None
    if state.st_uid not in (0, os.geteuid()):
        return "belongs to another user"
    if above and state.st_mode & stat.S_ISVTX:
        return None
    if state.st_mode & stat.S_IWOTH:
        return "can be written by everybody"
    if state.st_mode & stat.S_IWGRP and not _own_group(state.st_gid):
        return "can be written by its group"
    return None


@cache
def _own_group(number: int) -> bool:
    """Whether a group is this user's alone: many systems give everybody one of the same name."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(number)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
