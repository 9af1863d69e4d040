"""Whatever members do, and whenever, a classic group stays whole (C2, C3, C4).

Several clients join, sync, send heartbeats, leave, vanish and come back in any order, while time passes, the
disk refuses, and the coordinator restarts. After each step: a generation has one leader, who is in it; all
its members are told the same; every request is answered once at most; ids that were given out are bounded.
When all is quiet, every request has been answered, and the group is stable or empty.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from everlog.coordinator.group.classic_commands import GroupProtocol, Joined, Synced
from everlog.coordinator.group.classic_group import ClassicGroup, State
from everlog.model.errors import ErrorCode, StorageError
from tests.unit.coordinator.group.classic_shard import Asked, ClassicShard

SESSION_MS = 6_000
REBALANCE_MS = 20_000
PROTOCOLS = (
    (GroupProtocol("range", b"a"),),
    (GroupProtocol("range", b"b"), GroupProtocol("sticky", b"b")),
    (GroupProtocol("sticky", b"c"), GroupProtocol("range", b"c")),
)
CLIENTS = st.integers(0, 4)

GONE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)


@dataclass
class Client:
    """What one client knows; the last two are static."""

    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    join: Asked[Joined] | None = None
    joined_group: ClassicGroup | None = None
    """The group as it was in memory when it joined; one that nothing is kept of may be made anew."""
    sync: Asked[Synced] | None = None
    members: tuple[str, ...] = ()
    """Whom it leads, if it does."""


@dataclass
class Told:
    """What was said about one generation."""

    protocol: str | None
    leader: str
    members: set[str] = field(default_factory=set[str])
    """Who the leader was told is in it; empty until it was."""
    hearers: set[str] = field(default_factory=set[str])
    """Who was told to be in it."""


def _is_static(member_id: str) -> bool:
    """Whether it is that of an instance, of which another may have taken the place in the same generation."""
    return member_id.startswith(("x-", "y-"))


class AnyOrder(RuleBasedStateMachine):
    """Clients and a coordinator, in any order of events."""

    def __init__(self) -> None:
        super().__init__()
        self.shard = ClassicShard()
        self.clients = [Client(None), Client(None), Client(None), Client("x"), Client("y")]
        self.open: list[Asked[Joined] | Asked[Synced]] = []
        self.generations: dict[tuple[ClassicGroup, int], Told] = {}

    @initialize(delay=st.sampled_from(["0", "3000"]), most=st.sampled_from(["2", "100"]), holds=st.booleans())
    def configure(self, delay: str, most: str, holds: bool) -> None:
        self.shard.restart(group_initial_rebalance_delay_ms=delay, group_max_size=most)
        self.options = {"group_initial_rebalance_delay_ms": delay, "group_max_size": most}
        self.shard.journal.holds = holds

    # --- what clients do

    @rule(at=CLIENTS, protocols=st.sampled_from(PROTOCOLS), old=st.booleans())
    def join(self, at: int, protocols: tuple[GroupProtocol, ...], old: bool) -> None:
        client = self.clients[at]
        client.join = self.shard.join(
            client.member_id,
            instance_id=client.instance_id,
            protocols=protocols,
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
            needs_member_id=not old,
        )
        client.joined_group = self.shard.found()
        self.open.append(client.join)
        self.listen()

    @rule(at=CLIENTS, stale=st.booleans())
    def sync(self, at: int, stale: bool) -> None:
        client = self.clients[at]
        assignments = tuple((one, one.encode()) for one in client.members)
        generation = client.generation - stale
        client.sync = self.shard.sync(
            client.member_id, generation, *assignments, instance_id=client.instance_id
        )
        self.open.append(client.sync)
        self.listen()

    @rule(at=CLIENTS)
    def heartbeat(self, at: int) -> None:
        client = self.clients[at]
        asked = self.shard.beat(client.member_id, client.generation, client.instance_id)
        if not asked.is_open and asked.answer.error in GONE:
            client.member_id = ""
        self.listen()

    @rule(at=CLIENTS)
    def leave(self, at: int) -> None:
        client = self.clients[at]
        self.shard.leave(client.member_id)
        client.member_id, client.generation = "", -1
        self.listen()

    @rule(at=CLIENTS)
    def begin_anew(self, at: int) -> None:
        """The process is killed and started again: it knows nothing, and nobody reads its answers."""
        self.clients[at] = Client(self.clients[at].instance_id)

    # --- what the world does

    @rule(ms=st.sampled_from([1, 1_000, 3_000, SESSION_MS - 1, SESSION_MS, REBALANCE_MS]))
    def pass_time(self, ms: int) -> None:
        self.shard.pass_time(ms)
        self.listen()

    @rule(fails=st.booleans())
    def change_the_disk(self, fails: bool) -> None:
        self.shard.journal.fails = fails

    @rule(error=st.sampled_from([None, None, None, StorageError("the disk broke")]))
    def commit(self, error: StorageError | None) -> None:
        self.shard.journal.commit(error)
        self.listen()

    @precondition(lambda self: self.shard.journal.records)
    @rule()
    def restart(self) -> None:
        self.shard.shard.close()
        self.listen()
        assert all(not asked.is_open for asked in self.open), "a closed coordinator owes nothing"
        self.shard.journal.commit(StorageError("led from elsewhere"))
        self.shard.restart(**self.options)

    # --- what is heard

    def listen(self) -> None:
        """Let clients hear their answers, and note what was said about each generation."""
        for client in self.clients:
            if client.join is not None and not client.join.is_open:
                self._hear_join(client, client.join.answer)
                client.join = None
            if client.sync is not None and not client.sync.is_open:
                self._hear_sync(client, client.sync.answer)
                client.sync = None
        self.open = [asked for asked in self.open if asked.is_open]

    def _hear_join(self, client: Client, joined: Joined) -> None:
        if joined.error is ErrorCode.MEMBER_ID_REQUIRED:
            assert joined.member_id
            client.member_id = joined.member_id
        elif joined.error in (*GONE, ErrorCode.GROUP_MAX_SIZE_REACHED):
            client.member_id = ""
        elif joined.error is ErrorCode.NONE:
            client.member_id, client.generation = joined.member_id, joined.generation
            client.members = tuple(one.member_id for one in joined.members)
            assert client.joined_group is not None
            self._note_generation(client.joined_group, joined)

    def _note_generation(self, group: ClassicGroup, joined: Joined) -> None:
        new = Told(joined.protocol, joined.leader)
        told = self.generations.setdefault((group, joined.generation), new)
        assert told.protocol == joined.protocol
        assert told.leader == joined.leader or (_is_static(told.leader) and _is_static(joined.leader))
        told.hearers.add(joined.member_id)
        if joined.members:
            assert joined.leader == joined.member_id
            told.members |= {one.member_id for one in joined.members}
            assert joined.member_id in told.members
        if told.members:
            assert all(one in told.members or _is_static(one) for one in told.hearers)

    def _hear_sync(self, client: Client, synced: Synced) -> None:
        if synced.error is ErrorCode.NONE and synced.assignment:
            group = self.shard.group
            # A static member has what its old self had.
            assert client.instance_id is not None or synced.assignment == client.member_id.encode(), group
        elif synced.error in GONE:
            client.member_id = ""

    # --- what always holds

    @invariant()
    def the_group_is_whole(self) -> None:
        group = self.shard.found()
        if group is None:
            return
        members = {one.id: one for one in group.members}
        assert (group.members.leader in members) == bool(members)
        assert group.members.joining == sum(one.parked_join is not None for one in group.members)
        assert group.members.by_instance == {
            one.instance_id: one.id for one in group.members if one.instance_id is not None
        }
        assert not members.keys() & group.pending.keys()
        assert group.unsynced.keys() <= members.keys()
        if group.state is State.EMPTY:
            assert not members
        if group.state is not State.PREPARING:
            assert group.members.joining == 0
        if group.state in (State.EMPTY, State.STABLE):
            assert all(not one.waits for one in group.members)
        if group.state in (State.COMPLETING, State.STABLE):
            assert group.protocol is not None
            assert all(one.metadata(group.protocol) for one in group.members)

    @invariant()
    def ids_that_were_given_out_are_bounded_and_timed(self) -> None:
        shard = self.shard.shard
        pending = [one for group in shard.classic.groups() for one in group.pending]
        assert len(pending) == len(shard.classic.pending_ids)
        assert len(pending) <= len(shard.classic.rebalancer.timers)

    def teardown(self) -> None:
        """Be quiet: the disk is well again, nobody asks anything, and time passes."""
        self.shard.journal.fails = False
        self.shard.journal.holds = False
        self.shard.journal.commit()
        for _ in range(10):
            self.shard.pass_time(REBALANCE_MS)
        self.shard.pass_time(300_000)
        self.listen()
        assert self.open == []
        group = self.shard.found()
        assert group is None or group.state is State.EMPTY, group.state
        assert self.shard.shard.classic.deadline() is None


class AliveToTheEnd(AnyOrder):
    """The same, but in the end those that are members do what clients do, and the group settles."""

    def teardown(self) -> None:
        """Let each client go on until it has an assignment."""
        self.shard.journal.fails = False
        self.shard.journal.holds = False
        self.shard.journal.commit()
        self.listen()
        # Newcomers that were lost take up to five minutes to be forgotten, and may be made leaders meanwhile.
        rounds = settled = 0
        while settled < 10:
            for client in self.clients:
                if client.join is None and client.sync is None:
                    self._go_on(client)
            self.shard.pass_time(1_000)
            self.listen()
            settled = settled + 1 if self._is_settled() else 0
            rounds += 1
            assert rounds < 600

    def _is_settled(self) -> bool:
        group = self.shard.found()
        alive = {client.member_id for client in self.clients}
        return (
            group is not None and group.state is State.STABLE and {one.id for one in group.members} <= alive
        )

    def _go_on(self, client: Client) -> None:
        beat = self.shard.beat(client.member_id, client.generation, client.instance_id).answer.error
        at = self.clients.index(client)
        if beat in GONE:
            client.member_id = ""
        if beat is ErrorCode.NONE:
            self.sync(at, stale=False)
        else:
            self.join(at, PROTOCOLS[1], old=False)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAliveToTheEnd = AliveToTheEnd.TestCase
TestAliveToTheEnd.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
