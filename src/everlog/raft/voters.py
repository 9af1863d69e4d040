"""The voters: whose votes elect a leader, and whose disks commit an entry."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from everlog.model.ids import NO_UUID, Offset
from everlog.peers.address import Address
from everlog.raft.messages import ReplicaKey

NO_ADDRESSES: Mapping[int, Address] = MappingProxyType({})


class VoterSet:
    """An immutable set of voters; changes make another."""

    def __init__(self, voters: Iterable[ReplicaKey], addresses: Mapping[int, Address] = NO_ADDRESSES) -> None:
        """Take the voters, and where each listens for the others as far as that is known."""
        self._by_id = {voter.id: voter for voter in sorted(voters, key=lambda voter: voter.id)}
        self._addresses = {node: addresses[node] for node in self._by_id if node in addresses}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[ReplicaKey]:
        return iter(self._by_id.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._by_id == other._by_id

    def __hash__(self) -> int:
        return hash(tuple(self._by_id.values()))

    def __repr__(self) -> str:
        return f"VoterSet({list(self._by_id)})"

    @property
    def ids(self) -> tuple[int, ...]:
        """The nodes, in order."""
        return tuple(self._by_id)

    def has(self, replica: ReplicaKey) -> bool:
        """Whether this very replica votes; a voter without a directory is known by its node alone."""
        known = self._by_id.get(replica.id)
        return known is not None and known.directory in (replica.directory, NO_UUID)

    def key(self, node: int) -> ReplicaKey | None:
        """The voter on a node."""
        return self._by_id.get(node)

    def address(self, node: int) -> Address | None:
        """Where the voter on a node listens for the others."""
        return self._addresses.get(node)

    def is_majority(self, nodes: Iterable[int]) -> bool:
        """Whether more than half of the voters are among these nodes."""
        return len(self._by_id.keys() & set(nodes)) * 2 > len(self._by_id)

    def majority_has(self, ends: Mapping[int, Offset]) -> Offset:
        """Up to where more than half of the voters have the log; who is not in `ends` has nothing."""
        known = sorted((ends.get(voter, Offset(0)) for voter in self._by_id), reverse=True)
        return known[len(known) // 2]
