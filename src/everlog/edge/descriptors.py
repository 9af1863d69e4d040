"""A bounded number of file descriptors for any number of files (L11).

A file holds a `Descriptor`, which has a number from the kernel only while it is of use. To use it, pin
it; while it is pinned the number stays valid, whatever happens to the name of the file. What is not
pinned may be closed to make room, least recently used first, and is opened again when next pinned.

A pin is for the moment. Who will read a file at some later time, when a slow peer has made room for it,
holds it instead, which takes no number: only a file that is removed or closed while it is held gets one, to
keep, until nobody holds it any more. Those are a quarter of all at the most. Compiled code that appends pins
for long, half of all at the most. So what cannot be closed never takes the whole pool.

One small lock guards the pool. It is held to open and close descriptors and to follow renames, and never
while bytes move, so a slow fsync on one thread does not hold up an append on another. It is reentrant
because the garbage collector may drop a pin in the middle of our own bookkeeping.

Pinning an open descriptor takes no lock, which would cost as much as the rest of an append. It leans on
two orders instead, each of whose steps is atomic in Python. Who pins first enters itself and then reads
the number; who closes first hides the number and then looks for users. Whichever way these four steps
are shuffled, either the user finds no number and takes the slow way, or the closer finds the user and
puts the number back.
"""

import errno
import os
import resource
import stat
import threading
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager

_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW
# A disk that failed may have been made read-only under us. Reading goes on then.
_READ_ONLY_ERRORS = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_TOO_MANY_OPEN = frozenset({errno.EMFILE, errno.ENFILE})
_FILE_MODE = 0o600


def limit_open_files(wanted: int, others: int) -> int:
    """Raise the process's soft limit to hold `wanted` files and `others`, and return what files may have.

    Where the hard limit is lower, files get what it leaves, and half of it at the least: the others are
    connections, of which there are seldom as many as there may be.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    target = wanted + others if hard == unlimited else min(wanted + others, hard)
    if soft != unlimited and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        soft = target
    return wanted if soft == unlimited else min(wanted, max(soft - others, soft // 2))


class DescriptorPool:
    """All descriptors of one disk. At most `limit` are open, unless more than that are pinned at once.

    Pins for long and what is kept for holders leave a quarter of them free; all other pins are short.
    """

    def __init__(self, limit: int) -> None:
        assert limit > 0, limit
        self.limit = limit
        self.lock = threading.RLock()
        # Those with a number from the kernel, in the order in which they are to be closed. One that was
        # pinned since it was last looked at goes to the end instead ("second chance", nearly LRU).
        self._open: OrderedDict[Descriptor, None] = OrderedDict()
        self.most_for_long = limit // 2
        """How many may be pinned for as long as somebody likes; the others are enough to work with."""
        self.for_long = 0
        """How many are."""
        self.most_kept = limit // 4
        """How many may be kept for those who hold files that are gone."""
        self.kept = 0
        """How many are."""
        self.crowded = False
        """Whether more than `limit` are open, as those are pinned; the next one unpinned is closed."""
        # All that were entered and neither closed nor lost, with or without a number, by directory
        # and then by name: the rename of a directory looks at directories and not at files.
        self._known: dict[str, dict[str, list[Descriptor]]] = {}

    @property
    def open_count(self) -> int:
        """How many descriptors are open now."""
        return len(self._open)

    def enter(self, descriptor: "Descriptor") -> None:
        """Keep the descriptor's path true from now on."""
        with self.lock:
            directory, name = os.path.split(descriptor.path)
            self._known.setdefault(directory, {}).setdefault(name, []).append(descriptor)

    def leave(self, descriptor: "Descriptor") -> None:
        """Know the descriptor no more, if it is known; the lock is held."""
        directory, name = os.path.split(descriptor.path)
        known = self._known.get(directory, {}).get(name, [])
        if descriptor in known:
            known.remove(descriptor)
            if not known:
                self._take_known(directory, name)

    def renamed(self, old: str, new: str, *, is_directory: bool) -> None:
        """Follow the rename of a file or directory that has just been done; the lock is held.

        What was at `new` must have been lost before. That of a directory costs as much as there are
        directories with files that are known.
        """
        for descriptor in self._take_known(*os.path.split(old)):
            descriptor.path = new
            self.enter(descriptor)
        if not is_directory:
            return
        below = f"{old}/"
        for directory in [d for d in self._known if d == old or d.startswith(below)]:
            for name, descriptors in self._known.pop(directory).items():
                for descriptor in descriptors:
                    descriptor.path = f"{new}{directory[len(old) :]}/{name}"
                    self.enter(descriptor)

    def lose(self, path: str) -> list["Descriptor"]:
        """Retire all descriptors of a file that is about to be removed or replaced, and return them."""
        with self.lock:
            lost = self._take_known(*os.path.split(path))
            for descriptor in lost:
                descriptor.retire(errno.ENOENT)
            return lost

    def find_again(self, lost: list["Descriptor"]) -> None:
        """Take back a `lose`: the file could not be removed."""
        with self.lock:
            for descriptor in lost:
                descriptor.revive()
                self.enter(descriptor)

    def take(self, descriptor: "Descriptor", flags: int) -> int:
        """Open the descriptor's file, closing others where there are too many; the lock is held."""
        self._make_room(self.limit - 1)
        try:
            number = os.open(descriptor.path, flags | _FLAGS, _FILE_MODE)
        except OSError as error:
            if error.errno not in _TOO_MANY_OPEN:
                raise
            # Someone else in the process, sockets most likely, has what we thought was ours.
            self._make_room(len(self._open) // 2)
            number = os.open(descriptor.path, flags | _FLAGS, _FILE_MODE)
        self._open[descriptor] = None
        self.crowded = len(self._open) > self.limit
        return number

    def give_back(self, descriptor: "Descriptor", number: int) -> None:
        """Close a descriptor's number; the lock is held."""
        del self._open[descriptor]
        self.crowded = len(self._open) > self.limit
        os.close(number)

    def _take_known(self, directory: str, name: str) -> list["Descriptor"]:
        names = self._known.get(directory)
        if names is None:
            return []
        found = names.pop(name, [])
        if not names:
            del self._known[directory]
        return found

    def _make_room(self, keep: int) -> None:
        if len(self._open) <= keep:
            return
        # Twice around: after the first round nobody has a second chance left, only pins.
        for _ in range(2 * len(self._open)):
            descriptor = next(iter(self._open))
            self._open.move_to_end(descriptor)
            if descriptor.used:
                descriptor.used = False
            else:
                descriptor.let_go()
            if len(self._open) <= keep:
                return


class Descriptor:
    """The way to one file: a path, and a descriptor where one is open."""

    __slots__ = ("_gone", "_holders", "_kept", "_number", "_pool", "_users", "path", "read_only", "used")

    def __init__(self, pool: DescriptorPool, path: str) -> None:
        self.path = path
        """Where the file is; changed by a rename, with the pool's lock held."""
        self.read_only = 0
        """The errno for which the file could be opened for reading only; 0 where it can be written."""
        self.used = False
        """Whether it was pinned since the pool last looked."""
        self._pool = pool
        self._number = -1
        # One entry a pin. A list and not a count, because its append and pop are atomic.
        self._users: list[None] = []
        # Those who may pin it later even if the file has gone by then; entered as pins are.
        self._holders: list[None] = []
        self._kept = False  # Whether it keeps its number for them: the file has gone.
        # The errno for whoever asks for a new number: the file was closed (EBADF) or removed (ENOENT).
        self._gone = 0

    def create(self) -> None:
        """Open the file now, and make it if it is not there."""
        with self._pool.lock:
            self._number = self._pool.take(self, os.O_RDWR | os.O_CREAT)

    @property
    def pinned_number(self) -> int:
        """The number, for one who has it pinned."""
        assert self._users, self.path
        return self._number

    def pin(self) -> int:
        """Return a number that stays valid until `unpin`; it may be pinned many times, by any thread."""
        self._users.append(None)
        number = self._number
        if number >= 0:
            self.used = True
            return number
        self._users.pop()
        return self._pin_closed()

    def unpin(self) -> None:
        """Give back one pin."""
        self._users.pop()
        if self._gone or self._pool.crowded:
            with self._pool.lock:
                self.let_go()

    def pin_for_long(self) -> int | None:
        """Pin with no end in sight, until `unpin_for_long`; None if as many are as may be."""
        pool = self._pool
        with pool.lock:
            if pool.for_long >= pool.most_for_long:
                return None
            number = self.pin()
            pool.for_long += 1
            return number

    def unpin_for_long(self) -> None:
        """Give back a pin of `pin_for_long`."""
        with self._pool.lock:
            self._pool.for_long -= 1
            self.unpin()

    def hold(self) -> None:
        """Keep the file readable until `release`, whatever becomes of it; it has no number for that alone.

        OSError if it is gone already. Where too many are held that are gone, a later `pin` fails after all.
        """
        # As with pins: who holds enters itself, then looks; who retires says so, then looks for holders.
        self._holders.append(None)
        if self._gone:
            with self._pool.lock:
                if self._gone and not self._keep():
                    self._holders.pop()
                    raise OSError(self._gone, os.strerror(self._gone), self.path)

    def release(self) -> None:
        """Give back one hold."""
        self._holders.pop()
        if self._gone:
            with self._pool.lock:
                if not self._holders:
                    self._keep_no_more()
                self.let_go()

    def _keep(self) -> bool:
        """Have the number stay for those who hold; False if there is none, or too many are kept."""
        pool = self._pool
        if not self._kept and self._number >= 0 and pool.kept < pool.most_kept:
            self._kept = True
            pool.kept += 1
        return self._kept

    def _keep_no_more(self) -> None:
        if self._kept:
            self._kept = False
            self._pool.kept -= 1

    @contextmanager
    def pinned(self) -> Generator[int]:
        """Pin for the length of a `with`."""
        number = self.pin()
        try:
            yield number
        finally:
            self.unpin()

    def let_go(self) -> None:
        """Close the number if nobody has it pinned; the lock is held."""
        number, self._number = self._number, -1
        if number < 0:
            return
        if self._users or self._kept:
            self._number = number
        else:
            self._pool.give_back(self, number)

    def close(self) -> None:
        """Retire and be known no more; a second time does nothing."""
        with self._pool.lock:
            self._pool.leave(self)
            self.retire(errno.EBADF)

    def retire(self, error: int) -> None:
        """Hand out no number any more but fail with `error`; those pinned now stay valid until unpinned.

        Its file is still there, unless it was retired before: one that is held is opened to be kept.
        """
        with self._pool.lock:
            first = not self._gone
            self._gone = error
            if first and self._holders:
                self._retire_for_holders()
            self.let_go()

    def _retire_for_holders(self) -> None:
        if self._number < 0 and self._pool.kept < self._pool.most_kept:
            try:
                self._number = self._pool.take(self, os.O_RDONLY)
            except OSError:
                return  # Who holds it is told when it wants to read.
        self._keep()

    def revive(self) -> None:
        """Take back a `retire`: the file is there after all."""
        with self._pool.lock:
            self._gone = 0
            self._keep_no_more()

    def _pin_closed(self) -> int:
        with self._pool.lock:
            # Another thread may have opened it while we waited.
            if self._number < 0:
                self._number = self._take()
            self._users.append(None)
            return self._number

    def _take(self) -> int:
        if self._gone:
            raise OSError(self._gone, os.strerror(self._gone), self.path)
        if not self.read_only:
            try:
                return self._pool.take(self, os.O_RDWR)
            except OSError as error:
                if error.errno not in _READ_ONLY_ERRORS:
                    raise
                self.read_only = error.errno or errno.EROFS
        return self._pool.take(self, os.O_RDONLY)


def regular_file_size(path: str) -> int:
    """Return the size of the file at `path`; a link, a directory or a device is an OSError."""
    found = os.lstat(path)
    if stat.S_ISREG(found.st_mode):
        return found.st_size
    if stat.S_ISLNK(found.st_mode):
        problem = errno.ELOOP
    else:
        problem = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
    raise OSError(problem, os.strerror(problem), path)
