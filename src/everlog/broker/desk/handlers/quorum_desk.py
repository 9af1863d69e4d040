"""What the quorum's handlers need of the desk."""

from typing import Protocol

from everlog.raft.member import QuorumMember


class QuorumDesk(Protocol):
    """A desk, as far as the quorum goes."""

    @property
    def quorum(self) -> QuorumMember:
        """This node in the quorum."""
        ...

    @property
    def cluster_id(self) -> str:
        """The cluster that this node belongs to."""
        ...
