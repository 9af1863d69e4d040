"""Small disks in memory for brokers that we start: they can be filled, and nobody else's are."""

import errno
import os
import subprocess
from pathlib import Path

from everlog.chaos.faults import CannotBreak

_BLOCK = 1024 * 1024
_LEAVE_BYTES = 4096


class SmallDisk:
    """A file system in memory, put where a broker keeps its data; CannotBreak without the right to mount."""

    def __init__(self, home: Path, at: Path, size_bytes: int) -> None:
        self._at = at
        self._home = home
        self._mounted: list[Path] = []
        at.mkdir(parents=True)
        home.mkdir(parents=True, exist_ok=True)
        self._mount(at, "-t", "tmpfs", "-o", f"size={size_bytes}", "everlog-chaos")
        try:
            (at / "data").mkdir()
            self._mount(home, "--bind", str(at / "data"))
        except BaseException:
            self.close()
            raise

    @property
    def ballast(self) -> Path:
        """A file beside the broker's data that takes up room, not among them."""
        return self._at / "ballast"

    def close(self) -> None:
        """Take the disk away, with all that is on it."""
        while self._mounted:
            subprocess.run(["umount", "--lazy", str(self._mounted.pop())], check=False, capture_output=True)

    def _mount(self, place: Path, *options: str) -> None:
        done = subprocess.run(["mount", *options, str(place)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise CannotBreak(f"no means to make a small disk: {done.stderr.strip() or done.returncode}")
        self._mounted.append(place)


class FullDisk:
    """A disk that has no room left, by a file that takes all of it."""

    def __init__(self, ballast: Path) -> None:
        self._ballast = ballast
        self.means = "tmpfs: no room is left on the broker's disk"
        with ballast.open("wb", buffering=0) as file:
            size = _BLOCK
            while size >= _LEAVE_BYTES:
                try:
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2

    def end(self) -> None:
        """Make room again."""
        self._ballast.unlink(missing_ok=True)
