"""One process a log directory: a lock that goes when its process goes, however it goes."""

import fcntl
import os

from everlog.model.errors import ConfigError

LOCK_FILE = ".lock"


class DirectoryLock:
    """Holds a log directory for this process until it is released."""

    def __init__(self, directory: str) -> None:
        self._descriptor = os.open(
            f"{directory}/{LOCK_FILE}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise ConfigError(
                f"log directory {directory} is in use by another process; two brokers cannot share one"
            ) from None

    def release(self) -> None:
        """Let another process have the directory."""
        os.close(self._descriptor)
