"""Log directories that can be used, and those that cannot (KIP-858).

A refusal of the disk is one file's matter until proven otherwise: the directory is tried, and has failed if
it does not take a small file. It has failed as well once a sync of a log in it has: nobody knows what is on
that disk. The broker goes on with its other directories. After the last one, and after that of the metadata
log, others do better what it did: whoever runs the node is told, and should end it. A broker that is alone
goes on, for it can still be read, and takes records again once its disk does (`Healing`); unless the
directory is gone.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

from everlog.log.checkpoint import META_PROPERTIES
from everlog.log.directory import LogDirectory
from everlog.log.directory_probe import probe_directory
from everlog.model.errors import StorageError
from everlog.model.ids import Uuid
from everlog.ports.aside import Aside
from everlog.ports.files import Files

_log = logging.getLogger(__name__)


class DirectoryHealth:
    """What is known of the directories of one broker."""

    def __init__(
        self,
        files: Files,
        aside: Aside,
        directories: Sequence[LogDirectory],
        ids: Mapping[str, Uuid],
        unusable: Sequence[str],
        home: str,
        lost: Callable[[LogDirectory], None],
        is_alone: Callable[[], bool],
    ) -> None:
        """`unusable` failed before the start, `home` has the metadata log, `lost` is told of what fails."""
        self._files = files
        self._aside = aside
        self._online = list(directories)
        self._ids = ids
        self._home = home
        self._lost = lost
        self._is_alone = is_alone
        self.failed: dict[str, None] = dict.fromkeys(unusable)
        """The paths of directories that cannot be used until the next start."""
        self._tried: set[str] = set()
        self._unsynced: set[str] = set()
        self.on_failed: Callable[[StorageError], None] = lambda _error: None
        """Told when the broker cannot go on."""
        self.on_lost: Callable[[], None] = lambda: None
        """Told when the controller has something to hear about."""
        self.on_suspected: Callable[[], None] = lambda: None
        """Told when the disk has refused something, which may have left a log in doubt."""
        self._signs = {path: sign for path in ids if files.exists(sign := f"{path}/{META_PROPERTIES}")}
        for directory in self._online:
            directory.on_trouble = self._trouble(directory)

    @property
    def offline(self) -> list[Uuid]:
        """The ids of those that failed, as far as they are known, for the controller."""
        return [self._ids[path] for path in self.failed if path in self._ids]

    def is_online(self, directory: Uuid) -> bool:
        """Whether an id is that of a directory that can be used."""
        return any(self._ids.get(one.path) == directory for one in self._online)

    def id_of(self, path: str) -> Uuid | None:
        """The id of the directory at a path; None if it is not known."""
        return self._ids.get(path)

    def _trouble(self, directory: LogDirectory) -> Callable[[bool], None]:
        return lambda lasting: self.suspect(directory, lasting=lasting)

    def look(self, directory: LogDirectory) -> None:
        """Look whether a directory is still there: files that are open would not tell for a long time."""
        sign = self._signs.get(directory.path)
        if sign is not None and not self._files.exists(sign):
            self.suspect(directory)

    def suspect(self, directory: LogDirectory, *, lasting: bool = False) -> None:
        """Try a directory whose disk has refused something; `lasting` if a log takes no records for it."""
        path = directory.path
        self.on_suspected()
        if lasting:
            self._unsynced.add(path)
        if path in self._tried or path in self.failed:
            return
        self._tried.add(path)
        self._aside.run(
            lambda: probe_directory(self._files, path), lambda result: self._told(directory, result)
        )

    def _told(self, directory: LogDirectory, result: OSError | None) -> None:
        path = directory.path
        self._tried.discard(path)
        others = [one for one in self._online if one is not directory]
        if path in self.failed or (result is None and (path not in self._unsynced or not others)):
            return
        why = "a sync in it has failed" if result is None else str(result)
        if path == self._home or not others:
            what = "the directory of the metadata log" if path == self._home else "the last log directory"
            if result is None:
                return
            if self._is_alone() and not isinstance(result, FileNotFoundError):
                _log.error("%s, %s, takes no records now: %s", what, path, why)
            else:
                _log.critical("%s, %s, cannot be used: %s", what, path, why)
                self.on_failed(StorageError(f"{what}, {path}, cannot be used: {why}"))
            return
        _log.error("%s is out of use until the next start, with all that lies in it: %s", path, why)
        self.failed[path] = None
        self._online = others
        directory.on_trouble = None
        self._lost(directory)
        self.on_lost()
