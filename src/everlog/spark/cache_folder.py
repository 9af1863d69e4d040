"""A folder of this user that outlives sessions, for what is made once and run later: scripts, a jar."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder, which nobody else may write to; OSError, in one line, where there can be none.

    What lies there is run with all rights of this user, and the place may be another's: `sudo` can leave
    the `HOME` of who calls it, and programs in containers share `/tmp`.
    """
    named = environment.get("XDG_CACHE_HOME")
    try:
        above = Path(named) if named else Path(environment.get("HOME") or "~").expanduser() / ".cache"
    except RuntimeError as error:  # The user has no home that the system knows of.
        raise OSError(f"{error} XDG_CACHE_HOME can name a folder.") from None
    folder = above / "everlog"
    above.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    # Where all may make their own, a link may be somebody else's, who turns it elsewhere when we have looked.
    folder = folder.resolve()
    above = folder.parent
    outer, inner, user = above.stat(), folder.stat(), os.geteuid()
    # Who may rename it can put another in its place.
    if outer.st_uid not in (user, 0) or (outer.st_mode & stat.S_IWOTH and not outer.st_mode & stat.S_ISVTX):
        raise PermissionError(f"{above} is open to others: expected a folder of user {user} alone")
    if inner.st_uid != user or inner.st_mode & stat.S_IWOTH:
        raise PermissionError(f"{folder} is open to others: expected a folder of user {user} alone")
    if inner.st_mode & stat.S_IWGRP:
        folder.chmod(0o700)  # As a usual umask has left it.
    return folder
