"""What a simulated disk holds: what is durable, what is not yet, and what a crash makes of it.

Bytes and names are durable apart: a file's bytes from its `sync` on, its name from the `sync_dir` of its
directory on. What came later is a list of changes, and a crash decides for each what is left of it. It
may do all that file systems and drives are known to do: keep later writes and lose earlier ones, tear a
write at a sector or in it, lengthen a file with zeros, keep a removed name or lose a new one. It keeps to
two promises that all of them give: a rename happens or does not, and changes of the length of one file, as
well as changes of the name of one file, survive in their order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from everlog.ports.random import Random


class Loss(Enum):
    """What a crash does to changes that were not synced."""

    NONE = "none"
    """The process died and the machine lived: the page cache is whole."""
    ALL = "all"
    SOME = "some"
    """Chance decides for each."""


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes put at a position."""

    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """A file cut to a size."""

    size: int


Change = Write | Cut


@dataclass(eq=False, slots=True)
class Inode:
    """One file, whatever its name."""

    data: bytearray = field(default_factory=bytearray)
    """What a reader sees."""
    durable: bytearray = field(default_factory=bytearray)
    """What is left of the file if a crash takes every unsynced change."""
    unsynced: list[Change] = field(default_factory=list[Change])
    """Changes since the last sync, oldest first."""
    modified: int = 0
    """Wall time of the last change of the bytes."""

    def change(self, change: Change) -> None:
        """Change what readers see; durable after the next sync."""
        _apply(self.data, change)
        self.unsynced.append(change)

    def sync(self) -> None:
        """Make durable what is unsynced."""
        for change in self.unsynced:
            _apply(self.durable, change)
        self.unsynced.clear()

    def sync_failed(self) -> None:
        """Fail a sync as Linux does: the changes are forgotten as if they were durable, and are not."""
        self.unsynced.clear()

    def after_crash(self, chance: Random, loss: Loss) -> bytearray:
        """What is in the file after a crash."""
        if loss is Loss.NONE:
            return bytearray(self.data)
        left = bytearray(self.durable)
        if loss is Loss.SOME:
            match chance.below(4):
                case 0:
                    _keep_prefix(left, self.unsynced, chance)
                case 1:
                    _keep_some(left, self.unsynced, chance)
                case 2:
                    _keep_prefix(left, self.unsynced, None)
                case _:
                    pass
        return left


def _apply(content: bytearray, change: Change) -> None:
    if isinstance(change, Cut):
        del content[change.size :]
        return
    # A write behind the end leaves a hole, and holes read as zeros.
    if change.position > len(content):
        content.extend(bytes(change.position - len(content)))
    content[change.position : change.position + len(change.data)] = change.data


def _keep_prefix(content: bytearray, changes: Sequence[Change], chance: Random | None) -> None:
    """Apply the first changes, all without `chance`, and tear the one after them."""
    kept = len(changes) if chance is None else chance.below(len(changes) + 1)
    for change in changes[:kept]:
        _apply(content, change)
    if chance is not None and kept < len(changes):
        _tear(content, changes[kept], chance)


def _keep_some(content: bytearray, changes: Sequence[Change], chance: Random) -> None:
    """Apply whichever changes chance picks; what follows a lost cut is lost too."""
    for change in changes:
        fate = chance.below(3)
        if fate == 0:
            _apply(content, change)
        elif isinstance(change, Cut):
            return
        elif fate == 1:
            _tear(content, change, chance)


def _tear(content: bytearray, change: Change, chance: Random) -> None:
    """Apply a write up to a sector's end, or any byte; the rest may be there as zeros. Cuts do not tear."""
    if isinstance(change, Cut):
        return
    sector = (1, 512, 4096)[chance.below(3)]
    whole = len(change.data)
    kept = chance.below(whole + 1)
    kept = max(0, min(whole, (change.position + kept) // sector * sector - change.position))
    torn = change.data[:kept]
    if chance.below(2):
        torn += bytes(whole - kept)
    if torn:
        _apply(content, Write(change.position, torn))


@dataclass(eq=False, slots=True)
class Directory:
    """One directory, whatever its name."""

    names: dict[str, "Inode | Directory"] = field(default_factory=dict[str, "Inode | Directory"])
    """What a reader sees."""
    durable: dict[str, "Inode | Directory"] = field(default_factory=dict[str, "Inode | Directory"])
    """What is left if a crash takes every unsynced change."""
    unsynced: list["NameChange"] = field(default_factory=list["NameChange"])
    """Changes since the last sync, oldest first; a rename between two directories is in both."""

    def sync(self) -> None:
        """Make durable what is unsynced."""
        for change in list(self.unsynced):
            change.apply_durably()
            for directory, _name, _node in change.steps:
                if change in directory.unsynced:
                    directory.unsynced.remove(change)


Node = Inode | Directory


@dataclass(frozen=True, eq=False, slots=True)
class NameChange:
    """Names set (to a node) and removed (None) in one go; all of it survives a crash or none."""

    number: int
    """Its place among all changes of names, on all directories."""
    about: Node
    """The file or directory whose name changes."""
    steps: tuple[tuple[Directory, str, Node | None], ...]

    def apply(self) -> None:
        """Change what readers see."""
        for directory, name, node in self.steps:
            _set_name(directory.names, name, node)
            if self not in directory.unsynced:
                directory.unsynced.append(self)

    def apply_durably(self) -> None:
        """Change what a crash leaves."""
        for directory, name, node in self.steps:
            _set_name(directory.durable, name, node)


def _set_name(names: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def surviving_names(root: Directory, chance: Random, loss: Loss) -> dict[int, dict[str, Node]]:
    """What each directory, known by its `id`, holds after a crash."""
    directories: list[Directory] = []
    changes: dict[int, NameChange] = {}
    _collect(root, directories, changes)
    left = {id(directory): dict(directory.durable) for directory in directories}
    if loss is Loss.NONE:
        return {id(directory): dict(directory.names) for directory in directories}
    if loss is Loss.ALL:
        return left
    for change in _kept_changes([changes[number] for number in sorted(changes)], chance):
        for directory, name, node in change.steps:
            _set_name(left[id(directory)], name, node)
    return left


def _collect(directory: Directory, directories: list[Directory], changes: dict[int, NameChange]) -> None:
    directories.append(directory)
    for change in directory.unsynced:
        changes[change.number] = change
    found = [*directory.names.values(), *directory.durable.values()]
    found += [node for change in directory.unsynced for _, _, node in change.steps if node is not None]
    for node in found:
        if isinstance(node, Directory) and node not in directories:
            _collect(node, directories, changes)


def _kept_changes(changes: list[NameChange], chance: Random) -> list[NameChange]:
    if chance.below(2):
        # A journal: what came first survives.
        return changes[: chance.below(len(changes) + 1)]
    kept: list[NameChange] = []
    lost: list[Node] = []
    for change in changes:
        if change.about not in lost and chance.below(2):
            kept.append(change)
        else:
            # Two names of one file cannot change places: had this rename been lost and the next one
            # kept, the file would be there under two names.
            lost.append(change.about)
    return kept
