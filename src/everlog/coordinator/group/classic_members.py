"""The members of a classic group: who they are, what they can do, who leads, and who waits for an answer."""

from collections.abc import Collection, Iterable, Iterator

from everlog.coordinator.group.classic_commands import (
    GroupProtocol,
    Joined,
    JoinedMember,
    JoinGroup,
    Reply,
    Synced,
)
from everlog.model.errors import ErrorCode, Refused


class Member:
    """One member. What it waits for is soft state, and so is what it can do beyond the chosen protocol."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "id",
        "instance_id",
        "is_new",
        "parked_join",
        "parked_sync",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client: tuple[str, str],
        timeouts_ms: tuple[int, int],
        protocols: tuple[GroupProtocol, ...],
        assignment: bytes = b"",
    ) -> None:
        """`client` is its id and host, `timeouts_ms` that of the session and that of a rebalance."""
        self.id = member_id
        self.instance_id = instance_id
        self.client_id, self.client_host = client
        self.session_timeout_ms, self.rebalance_timeout_ms = timeouts_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        """Whether it has not heard yet that it is a member, so that it cannot send heartbeats."""
        self.parked_join: Reply[Joined] | None = None
        self.parked_sync: Reply[Synced] | None = None

    @classmethod
    def joining(cls, member_id: str, command: JoinGroup, protocols: tuple[GroupProtocol, ...]) -> "Member":
        """The member that a join makes."""
        return cls(
            member_id,
            command.instance_id,
            (command.client_id, command.client_host),
            (command.session_timeout_ms, command.rebalance_timeout_ms),
            protocols,
        )

    @property
    def waits(self) -> bool:
        """Whether it has asked something that is not answered: it need not send heartbeats then."""
        return self.parked_join is not None or self.parked_sync is not None

    def become(self, said: "Member") -> "Member":
        """Take over what a record says of this member, and go on as it."""
        # A record has the protocol that was chosen alone; the member may know more.
        if not set(said.protocols) <= set(self.protocols):
            self.protocols = said.protocols
        self.client_id, self.client_host = said.client_id, said.client_host
        self.session_timeout_ms = said.session_timeout_ms
        self.rebalance_timeout_ms = said.rebalance_timeout_ms
        self.assignment = said.assignment
        return self

    def metadata(self, protocol: str | None) -> bytes:
        """What it says about itself in a protocol; empty if it does not know that one."""
        for known in self.protocols:
            if known.name == protocol:
                return known.metadata
        return b""


class Members:
    """The members of one group in the order in which they came. There is a protocol that all of them know."""

    def __init__(self) -> None:
        self._by_id: dict[str, Member] = {}
        self.by_instance: dict[str, str] = {}
        """Instance id to the member id that it has now."""
        self.leader: str | None = None
        """A member's id whenever there are members."""
        self.joining = 0
        """How many have a join parked."""
        self._supporters: dict[str, int] = {}
        """Protocol name to how many members know it."""

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_id.values())

    def __contains__(self, member_id: str | None) -> bool:
        return member_id in self._by_id

    def get(self, member_id: str) -> Member | None:
        """The member of that id."""
        return self._by_id.get(member_id)

    def find(self, member_id: str, instance_id: str | None) -> Member:
        """The member who asks; Refused with FENCED_INSTANCE_ID if another has taken its instance id."""
        if instance_id is not None:
            current = self.by_instance.get(instance_id)
            if current is not None and current != member_id:
                raise Refused(
                    ErrorCode.FENCED_INSTANCE_ID,
                    f"instance {instance_id!r} is member {current!r} now, found {member_id!r}",
                )
        member = self._by_id.get(member_id)
        if member is None or (instance_id is not None and member.instance_id != instance_id):
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is not a member of the group")
        return member

    # --- who comes and goes

    def add(self, member: Member) -> None:
        """Take in a member; the first one leads."""
        assert member.id not in self._by_id, member.id
        assert member.instance_id is None or member.instance_id not in self.by_instance, member.instance_id
        self._by_id[member.id] = member
        if member.instance_id is not None:
            self.by_instance[member.instance_id] = member.id
        if self.leader is None:
            self.leader = member.id
        self._count_protocols(member, 1)

    def remove(self, member: Member) -> None:
        """Let a member go, whose requests are answered; if it led, the one that is there longest does."""
        assert not member.waits, member.id
        del self._by_id[member.id]
        if member.instance_id is not None:
            del self.by_instance[member.instance_id]
        if self.leader == member.id:
            self.leader = next(iter(self._by_id), None)
        self._count_protocols(member, -1)

    def replace(self, old: Member, new: Member) -> None:
        """Put a static member's new self in its place; if the old one led, the new one does."""
        assert old.instance_id == new.instance_id, (old.instance_id, new.instance_id)
        led = self.leader == old.id
        self.remove(old)
        self.add(new)
        if led:
            self.leader = new.id

    def update(self, member: Member, command: JoinGroup, protocols: tuple[GroupProtocol, ...]) -> None:
        """Take over what a member says about itself now."""
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, 1)
        member.session_timeout_ms = command.session_timeout_ms
        member.rebalance_timeout_ms = command.rebalance_timeout_ms

    # --- who waits

    def park_join(self, member: Member, reply: Reply[Joined]) -> Reply[Joined] | None:
        """Let a join wait; returns the member's earlier one, which waits no more."""
        earlier, member.parked_join = member.parked_join, reply
        self.joining += earlier is None
        return earlier

    def take_join(self, member: Member) -> Reply[Joined] | None:
        """The member's parked join, to be answered now."""
        reply, member.parked_join = member.parked_join, None
        self.joining -= reply is not None
        return reply

    def elect_leader(self) -> bool:
        """See that the leader is one who has joined; false if nobody has."""
        leader = None if self.leader is None else self._by_id[self.leader]
        if leader is None or leader.parked_join is None:
            leader = next((one for one in self if one.parked_join is not None), None)
            if leader is None:
                return False
            self.leader = leader.id
        return True

    # --- what they agree on

    def know_one_of(self, protocols: tuple[GroupProtocol, ...]) -> bool:
        """Whether all members know one of these protocols."""
        return any(self._supporters.get(one.name, 0) == len(self) for one in protocols)

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the slowest member may take to join again."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def _count_protocols(self, member: Member, by: int) -> None:
        for protocol in member.protocols:
            count = self._supporters.get(protocol.name, 0) + by
            if count:
                self._supporters[protocol.name] = count
            else:
                del self._supporters[protocol.name]


def distinct(protocols: tuple[GroupProtocol, ...]) -> tuple[GroupProtocol, ...]:
    """The protocols without those whose name came before."""
    first: dict[str, GroupProtocol] = {}
    for one in protocols:
        first.setdefault(one.name, one)
    return tuple(first.values())


def choose_protocol(members: Collection[Member]) -> str | None:
    """Of the protocols that all know, the one that most like best; the earlier members win a tie."""
    knowing: dict[str, int] = {}
    for member in members:
        for one in member.protocols:
            knowing[one.name] = knowing.get(one.name, 0) + 1
    votes: dict[str, int] = {}
    for member in members:
        choice = next((one.name for one in member.protocols if knowing[one.name] == len(members)), None)
        if choice is not None:
            votes[choice] = votes.get(choice, 0) + 1
    return max(votes, key=votes.__getitem__, default=None)


def told_to_leader(members: Iterable[Member], protocol: str | None) -> tuple[JoinedMember, ...]:
    """Members with what they say about themselves in a protocol."""
    return tuple(JoinedMember(one.id, one.instance_id, one.metadata(protocol)) for one in members)
