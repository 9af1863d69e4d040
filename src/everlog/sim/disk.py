"""A simulated disk: everything `everlog.ports.files` promises, and everything that may go wrong.

It forgets what was not synced when it is told to crash (`after_crash`), stops at any operation
(`crash_at`, `watch`), fails with any errno (`faults`), fills up (`quota_bytes`) and rots (`flip_bit`).
"""

import errno

from everlog.ports.clock import Clock
from everlog.ports.random import Random
from everlog.sim.clock import SimClock
from everlog.sim.faults import Crashed, Fault, Kind, Moment, Operation, Watcher
from everlog.sim.handle import SimFile, os_error
from everlog.sim.platter import Cut, Directory, Inode, Loss, NameChange, Node, Write, surviving_names

_PLENTY = 1 << 40


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rstrip("/").rpartition("/")
    return parent, name


class SimFiles:
    """A simulated disk; see `everlog.ports.files.Files` for what it promises.

    Nothing is shared between disks, and one disk belongs to one thread.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.faults: list[Fault] = []
        """What fails now; empty it and the disk is well again."""
        self.quota_bytes: int | None = None
        """How many bytes all files may have together; None is no bound."""
        self.room_bytes = 0
        """How many zeros a segment has behind its end while it grows, as `File.lend` may leave there."""
        self.watch: Watcher | None = None
        """Called around every changing operation. It may raise, and may take `after_crash` copies."""
        self.operations = 0
        """How many changing operations were begun."""
        self._clock: Clock = clock if clock is not None else SimClock()
        self._root = Directory()
        self._open: list[SimFile] = []
        self._used_bytes = 0
        self._name_changes = 0
        self._crash_at: tuple[int, Moment] | None = None
        self._dead = False

    def crash_at(self, number: int, moment: Moment) -> None:
        """Raise Crashed at the moment of the operation with that number, and from then on always.

        An operation that has no halfway is stopped before instead.
        """
        self._crash_at = (number, moment)

    def after_crash(self, chance: Random, loss: Loss = Loss.SOME) -> "SimFiles":
        """The disk as it is found after a crash now: a copy, all of it durable, free of faults."""
        found = SimFiles(self._clock)
        found.room_bytes = self.room_bytes
        names = surviving_names(self._root, chance, loss)
        found._fill(found._root, self._root, names, chance, loss)
        return found

    @property
    def used_bytes(self) -> int:
        """How many bytes all files have together."""
        return self._used_bytes

    def flip_bit(self, path: str, position: int, bit: int) -> None:
        """Let one bit of a file rot, on the disk and in all that is read from now on."""
        inode = self._inode(path)
        inode.data[position] ^= 1 << bit
        inode.durable[position : position + 1] = inode.data[position : position + 1]

    def tree(self) -> dict[str, bytes | None]:
        """All that can be seen, by path: the bytes of files, None for directories."""
        found: dict[str, bytes | None] = {}

        def visit(directory: Directory, path: str) -> None:
            for name in sorted(directory.names):
                node = directory.names[name]
                found[f"{path}/{name}"] = None if isinstance(node, Directory) else bytes(node.data)
                if isinstance(node, Directory):
                    visit(node, f"{path}/{name}")

        visit(self._root, "")
        return found

    # What a core may call.

    def open(self, path: str, *, create: bool = False) -> SimFile:
        """Open a file to read and append; without `create` it must be there."""
        self.check_alive()
        parent, name = self._parent(path)
        node = parent.names.get(name)
        if node is None:
            if not create:
                raise os_error(errno.ENOENT, path)
            operation = self._begin(Kind.CREATE, path)
            node = Inode(modified=self._clock.wall())
            self._rename(node, (parent, name, node))
            self._end(operation)
        if isinstance(node, Directory):
            raise os_error(errno.EISDIR, path)
        file = SimFile(self, node, path)
        self._open.append(file)
        return file

    def map(self, path: str) -> memoryview:
        """Return a sealed file's bytes, read-only."""
        return memoryview(self.read(path))

    def read(self, path: str) -> bytes:
        """Return all bytes of a small file."""
        self.check_read(path)
        return bytes(self._inode(path).data)

    def size(self, path: str) -> int:
        """Bytes in the file at `path`."""
        self.check_alive()
        return len(self._inode(path).data)

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory at `path`."""
        self.check_alive()
        return self._find(path) is not None

    def modified(self, path: str) -> int:
        """When the file was last written, in milliseconds since 1970."""
        self.check_alive()
        return self._inode(path).modified

    def names(self, directory: str) -> list[str]:
        """The names in a directory, sorted."""
        self.check_alive()
        return sorted(self._directory(directory).names)

    def make_dir(self, path: str) -> None:
        """Make a directory and the parents that it lacks; one that is there is fine."""
        self.check_alive()
        parent, at = self._root, ""
        for name in path.strip("/").split("/"):
            at = f"{at}/{name}"
            node = parent.names.get(name)
            if node is None:
                operation = self._begin(Kind.MAKE_DIR, at)
                node = Directory()
                self._rename(node, (parent, name, node))
                self._end(operation)
            if not isinstance(node, Directory):
                raise os_error(errno.EEXIST, at)
            parent = node

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory, atomically replacing a file at `new`; open files go along."""
        self.check_alive()
        (old_parent, old_name), (new_parent, new_name) = self._parent(old), self._parent(new)
        node, replaced = old_parent.names.get(old_name), new_parent.names.get(new_name)
        if node is None:
            raise os_error(errno.ENOENT, old)
        if node is replaced:
            return
        self._rename_check(node, replaced, new)
        operation = self._begin(Kind.RENAME, f"{old} to {new}")
        self._lose(new)
        self._rename(node, (old_parent, old_name, None), (new_parent, new_name, node))
        if isinstance(replaced, Inode):
            self._used_bytes -= len(replaced.data)
        for file in self._open:
            if file.path == old or file.path.startswith(f"{old}/"):
                file.path = new + file.path[len(old) :]
        self._end(operation)

    def unlink(self, path: str) -> None:
        """Remove a file. Who has it open can read it no more."""
        self.check_alive()
        inode = self._inode(path)
        operation = self._begin(Kind.UNLINK, path)
        self._lose(path)
        self._rename(inode, (*self._parent(path), None))
        self._used_bytes -= len(inode.data)
        self._end(operation)

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory."""
        self.check_alive()
        directory = self._directory(path)
        if directory.names:
            raise os_error(errno.ENOTEMPTY, path)
        operation = self._begin(Kind.REMOVE_DIR, path)
        self._rename(directory, (*self._parent(path), None))
        self._end(operation)

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable: new, renamed and removed ones."""
        self.check_alive()
        directory = self._directory(path)
        operation = self._begin(Kind.SYNC_DIR, path)
        directory.sync()
        self._end(operation)

    def total_bytes(self, path: str) -> int:
        """The size of the disk that holds `path`."""
        self._find(path)
        return _PLENTY if self.quota_bytes is None else self.quota_bytes

    def free_bytes(self, path: str) -> int:
        """Room left for us on the disk that holds `path`."""
        self._find(path)
        return _PLENTY if self.quota_bytes is None else max(0, self.quota_bytes - self._used_bytes)

    # What an open file calls.

    def write(self, inode: Inode, path: str, position: int, data: bytes) -> None:
        """Write at the end of a file, as far as faults and the quota allow."""
        operation = self._begin_watched(Kind.APPEND, path)
        fault = self._struck(Kind.APPEND, path)
        problem = fault.errno if fault else 0
        room = fault.after_bytes if fault else len(data)
        if self.quota_bytes is not None and self.quota_bytes - self._used_bytes < min(room, len(data)):
            problem, room = errno.ENOSPC, max(0, self.quota_bytes - self._used_bytes)
        if len(data) > 1:
            self._halfway(operation, inode, Write(position, data[: len(data) // 2]))
        if taken := data[:room]:
            self._change(inode, Write(position, taken))
        if problem:
            raise os_error(problem, path)
        self._end(operation)

    def make_room(self, inode: Inode, path: str, position: int) -> None:
        """Write zeros behind the end where files have room there, if the disk lets us."""
        if self.room_bytes and path.endswith(".log") and len(inode.data) == position:
            try:
                self.write(inode, path, position, bytes(self.room_bytes))
            except OSError:
                pass

    def overwrite(self, inode: Inode, path: str, position: int, data: bytes) -> None:
        """Write bytes over the very same ones, which takes no room; a crash finds them written or not."""
        assert inode.data[position : position + len(data)] == data, (path, position)
        operation = self._begin(Kind.APPEND, path)
        self._change(inode, Write(position, data))
        self._end(operation)

    def cut(self, kind: Kind, inode: Inode, path: str, size: int) -> None:
        """Cut a file."""
        operation = self._begin(kind, path)
        self._change(inode, Cut(size))
        self._end(operation)

    def sync(self, inode: Inode, path: str) -> None:
        """Make a file's bytes durable, or lose track of them where it fails."""
        operation = self._begin_watched(Kind.SYNC, path)
        if fault := self._struck(Kind.SYNC, path):
            inode.sync_failed()
            raise os_error(fault.errno, path)
        inode.sync()
        self._end(operation)

    def forget(self, file: SimFile) -> None:
        """Know an open file no more."""
        self._open = [known for known in self._open if known is not file]

    def check_read(self, path: str) -> None:
        """Raise what a read at `path` must fail with, if anything."""
        self.check_alive()
        if fault := self._struck(Kind.READ, path):
            raise os_error(fault.errno, path)

    def check_alive(self) -> None:
        """Raise Crashed where this disk's machine has stopped."""
        if self._dead:
            raise Crashed

    # How it is done.

    def _begin(self, kind: Kind, path: str) -> Operation:
        operation = self._begin_watched(kind, path)
        if fault := self._struck(kind, path):
            raise os_error(fault.errno, path)
        return operation

    def _begin_watched(self, kind: Kind, path: str) -> Operation:
        self.check_alive()
        operation = Operation(self.operations, kind, path)
        self.operations += 1
        self._moment(operation, Moment.BEFORE)
        if self._crash_at == (operation.number, Moment.HALFWAY) and kind is not Kind.APPEND:
            self._die()
        return operation

    def _end(self, operation: Operation) -> None:
        self._moment(operation, Moment.AFTER)

    def _moment(self, operation: Operation, moment: Moment) -> None:
        if self.watch is not None:
            self.watch(operation, moment)
        if self._crash_at == (operation.number, moment):
            self._die()

    def _halfway(self, operation: Operation, inode: Inode, part: Write) -> None:
        if self.watch is None and self._crash_at != (operation.number, Moment.HALFWAY):
            return
        inode.change(part)
        self._moment(operation, Moment.HALFWAY)
        del inode.data[part.position :]
        inode.unsynced.pop()

    def _die(self) -> None:
        self._dead = True
        raise Crashed

    def _struck(self, kind: Kind, path: str) -> Fault | None:
        return next((fault for fault in self.faults if fault.strikes(kind, path)), None)

    def _change(self, inode: Inode, change: Write | Cut) -> None:
        self._used_bytes -= len(inode.data)
        inode.change(change)
        self._used_bytes += len(inode.data)
        inode.modified = self._clock.wall()

    def _rename(self, about: Node, *steps: tuple[Directory, str, Node | None]) -> None:
        NameChange(self._name_changes, about, steps).apply()
        self._name_changes += 1

    def _rename_check(self, node: Node, replaced: Node | None, new: str) -> None:
        if replaced is None:
            return
        if isinstance(replaced, Inode):
            if isinstance(node, Directory):
                raise os_error(errno.ENOTDIR, new)
        elif isinstance(node, Inode):
            raise os_error(errno.EISDIR, new)
        elif replaced.names:
            raise os_error(errno.ENOTEMPTY, new)

    def _lose(self, path: str) -> None:
        for file in [file for file in self._open if file.path == path]:
            file.gone = errno.ENOENT
            self.forget(file)

    def _find(self, path: str) -> Node | None:
        node: Node | None = self._root
        for name in path.strip("/").split("/"):
            if not isinstance(node, Directory):
                return None
            if name:
                node = node.names.get(name)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        parent, name = _split(path)
        return self._directory(parent), name

    def _directory(self, path: str) -> Directory:
        node = self._find(path)
        if node is None:
            raise os_error(errno.ENOENT, path)
        if isinstance(node, Inode):
            raise os_error(errno.ENOTDIR, path)
        return node

    def _inode(self, path: str) -> Inode:
        node = self._find(path)
        if node is None:
            raise os_error(errno.ENOENT, path)
        if isinstance(node, Directory):
            raise os_error(errno.EISDIR, path)
        return node

    def _fill(
        self,
        target: Directory,
        source: Directory,
        names: dict[int, dict[str, Node]],
        chance: Random,
        loss: Loss,
    ) -> None:
        # Sorted, so that the order of draws does not depend on the order in which names were made.
        for name, node in sorted(names[id(source)].items()):
            if isinstance(node, Directory):
                made = Directory()
                target.names[name] = target.durable[name] = made
                self._fill(made, node, names, chance, loss)
                continue
            left = node.after_crash(chance, loss)
            target.names[name] = target.durable[name] = Inode(left, bytearray(left), [], node.modified)
            self._used_bytes += len(left)
