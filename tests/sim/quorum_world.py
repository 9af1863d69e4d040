"""A quorum alone: members with their logs, votes and connections on simulated machines, and nothing else.

It is a cluster's world without brokers: cheaper, so that more seeds see disks that forget, fail and tear.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from everlog.broker.desk.handlers import (
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch_metadata,
    fetch_snapshot,
    vote,
)
from everlog.broker.exchange import Exchange
from everlog.broker.session import Outlet, Session
from everlog.controller.metadata_log import (
    METADATA_LOG_SETTINGS,
    METADATA_PARTITION,
    MetadataLog,
    open_member,
    quorum_timing,
)
from everlog.log.directory import LogDirectory, make_dir_durably
from everlog.log.partition import World
from everlog.model.errors import EverlogError, StorageError
from everlog.model.ids import METADATA_TOPIC_ID, Instant
from everlog.model.settings import BrokerSettings
from everlog.model.settings.listeners import Listener
from everlog.node.identity import identify
from everlog.node.node import Node
from everlog.peers.address import Address
from everlog.peers.peers import Peers
from everlog.ports.alarm import Alarm
from everlog.ports.aside import Aside
from everlog.ports.clock import Clock
from everlog.ports.files import Files
from everlog.ports.links import Links
from everlog.ports.random import Random
from everlog.raft.member import MemberWorld
from everlog.raft.snapshots import SnapshotFiles
from everlog.raft.store import QuorumStore
from everlog.raft.transport import PeerTransport
from everlog.raft.wire.asking import Sender
from everlog.sim.chance import SimRandom
from everlog.sim.clock import DriftingClock
from everlog.sim.cluster_nemesis import ClusterNemesis
from everlog.sim.cluster_plan import Blow, ClusterPlan, Mark, Strike, draw_cluster
from everlog.sim.cluster_trace import Trace
from everlog.sim.host import DATA
from everlog.sim.machine import CONTROLLERS_PORT, Machine, host_name
from everlog.sim.mesh import Mesh
from everlog.sim.network import Weather
from everlog.sim.plan import Crashes
from everlog.sim.platter import Loss
from everlog.sim.quorum_ghosts import QuorumGhosts
from everlog.sim.timeline import Timeline
from everlog.wire.api_keys import ApiKey
from everlog.wire.codec import decode_request, read_request_header

if TYPE_CHECKING:
    from everlog.sim.cluster_world import ClusterWorld

_HANDLERS: dict[int, Callable[[Any, Any, Exchange], None]] = {
    ApiKey.VOTE: vote.handle,
    ApiKey.BEGIN_QUORUM_EPOCH: begin_quorum_epoch.handle,
    ApiKey.END_QUORUM_EPOCH: end_quorum_epoch.handle,
    ApiKey.FETCH: fetch_metadata.handle,
    ApiKey.FETCH_SNAPSHOT: fetch_snapshot.handle,
}
_LIVENESS_MS = 60_000
_CLUSTER_ID = "c2ltdWxhdGVkLWNsdXN0ZQ"


class QuorumNode:
    """A node that is a member of the quorum and has no other part."""

    def __init__(
        self,
        settings: BrokerSettings,
        files: Files,
        clock: Clock,
        random: Random,
        aside: Aside,
        alarm: Alarm,
        links: Links,
    ) -> None:
        self._aside = aside
        make_dir_durably(files, DATA)
        self.cluster_id, directories = identify(files, [DATA], settings.node_id, random, _CLUSTER_ID)
        home = self._home = LogDirectory(World(files, clock, random), DATA)
        home.load()
        log = home.get(METADATA_PARTITION, METADATA_LOG_SETTINGS) or home.create(
            METADATA_PARTITION, METADATA_TOPIC_ID, METADATA_LOG_SETTINGS
        )
        metadata = MetadataLog(
            log, lambda: home.reopen(METADATA_PARTITION), aside, clock, SnapshotFiles(files, log.path)
        )
        self._peers = Peers(links, clock, alarm, f"node {settings.node_id}")
        address = Address(host_name(settings.node_id), CONTROLLERS_PORT)
        transport = PeerTransport(
            self._peers,
            Sender(self.cluster_id, "CONTROLLER", address),
            quorum_timing(settings),
            {one.id: Address(one.host, one.port) for one in settings.voters},
        )
        world = MemberWorld(aside, clock, alarm, random)
        self.desk = self
        self.member = self.quorum = open_member(
            settings, directories[DATA], metadata, QuorumStore(files, log.path), world, transport
        )
        transport.on_gone = self.member.gone

    def start(self, listeners: list[Listener], done: Callable[[EverlogError | None], None]) -> None:
        """Take part."""
        self.member.start()
        done(None)

    def tick(self, now: Instant) -> None:
        """Do what is due."""
        self._peers.tick(now)
        self.member.tick(now)

    def open_session(self, outlet: Outlet, listener_name: str, peer_host: str) -> Session:
        """Take on a connection."""
        return Session(cast(Any, self), outlet, listener_name, peer_host, 100)

    def dispatch(self, api_key: int, exchange: Exchange, frame: memoryview, _after: int) -> None:
        """Hand a request to its handler."""
        _HANDLERS[api_key](self, decode_request(read_request_header(frame), frame), exchange)

    def leave(self, done: Callable[[], None]) -> None:
        """Hand the lead over, then call `done`."""
        self.member.resign()
        done()

    def session_closed(self, session: Session) -> None:
        """Nobody waits for anybody here."""

    def close(self) -> None:
        """Make everything durable."""
        self._peers.close()
        self._home.close(self._aside, broker_epoch=0)


class _Machine(Machine):
    """One whose node has no broker to settle."""

    def settle(self) -> None:
        """Nothing is put off here."""


class QuorumWorld:
    """Runs from a seed; `run` raises what does not hold, or returns how much was committed."""

    def __init__(self, plan: ClusterPlan, trace: Trace | None = None) -> None:
        self.plan = plan
        self.time = Timeline()
        self._trace = trace
        self._chance = chance = SimRandom(plan.seed)
        self.mesh = Mesh(self.time, chance.fork("mesh"))
        if trace is not None:
            trace.attach(self.time, self.mesh)
        self.ghosts = QuorumGhosts()
        self.machines: list[Machine] = [self._machine(node_id) for node_id in range(1, plan.nodes + 1)]
        self.nemesis = ClusterNemesis(cast("ClusterWorld", self), chance.fork("nemesis"))
        self._proposed = 0
        self._propose_every_ms = 60
        """At most so long between proposals."""

    def _machine(self, node_id: int) -> Machine:
        plan, name = self.plan, host_name(node_id)
        clock = DriftingClock(self.time.now_ms, plan.drifts_ppm[node_id - 1], began_ms=node_id * 1_000)
        voters = [f"{voter}@{host_name(voter)}:{CONTROLLERS_PORT}" for voter in range(1, plan.nodes + 1)]
        settings = {
            key: value for key, value in plan.settings.items() if key.startswith("controller.quorum")
        } | {"controller.quorum.voters": ",".join(voters), "cluster.id": _CLUSTER_ID}
        machine = _Machine(node_id, self.mesh, clock, self._chance.fork(name), settings, self._stepped)
        machine.build = cast(Callable[..., Node], QuorumNode)
        machine.on_recovered = lambda _node: self.ghosts.began(node_id)
        machine.kill_when_crashed = lambda: self.nemesis.crashed(machine)
        machine.on_failed = lambda error: self.nemesis.failed(machine, str(error))
        return machine

    # What the nemesis asks.

    def say(self, what: str) -> None:
        """Put a line into the trace, if there is one."""
        if self._trace is not None:
            self._trace.say(what)

    def note_fault(self, start: int, what: str) -> None:
        """Nobody keeps a history here."""

    def stopped(self, machine: Machine, *, clean: bool = False) -> None:
        """Whatever a stop takes, it must be made up for."""

    def is_marked(self, machine: Machine, mark: Mark) -> bool:
        """Whoever leads is what all marks mean."""
        return mark is Mark.ANY or bool(self._member(machine).is_active)

    def may_stop(self, machines: list[Machine]) -> bool:
        """The quorum syncs before it counts: all may lose power at once."""
        return True

    def has_copies_without(self, machine: Machine) -> bool:
        """A disk may fail at any time."""
        return True

    def is_broken(self, machine: Machine) -> bool:
        """One whose first sync failed knows nothing of its log any more: only another process can read it."""
        return int(self._member(machine).epoch) < 0

    def client_names(self) -> list[str]:
        """There are none."""
        return []

    # The run.

    def run(self) -> int:
        """Run with faults, then without: in the end all agree, and more can be committed."""
        for machine in self.machines:
            self.time.at(self._chance.below(50), machine.start)
        self.mesh.weather = self.plan.clients.weather
        self.nemesis.schedule(self.plan.strikes)
        self.time.at(10, self._propose)
        load_ms = self.plan.clients.load_ms
        self._run_until(lambda: self.time.now_ms() >= load_ms, "the load", load_ms + 100)
        self.mesh.weather = Weather()
        self.nemesis.heal()
        self.say("healed")
        before = self.ghosts.committed_end
        self._run_until(lambda: self.ghosts.committed_end > before + 1, "committing more", _LIVENESS_MS)
        self._run_until(self._agree, "agreement", _LIVENESS_MS)
        return self.ghosts.committed_end

    def fail_over(self, disk_ms: int, stall_ms: int = 0, dead: int = 1) -> tuple[int, int]:
        """Let one disk be slow and kill the leader, and others; how long until another has committed.

        Each job of the slow disk takes `disk_ms`. Its node does nothing for `stall_ms` at a time, as one does
        that writes to a slow disk on its loop. The other figure is how many leaders began in the ten
        seconds after that.
        """
        for machine in self.machines:
            self.time.at(self._chance.below(50), machine.start)
        self._propose_every_ms = 500
        self.time.at(10, self._propose)
        self._run_until(lambda: self.ghosts.committed_end > 10 and self._agree(), "the beginning", 60_000)
        leader = next(machine for machine in self.machines if self._member(machine).is_active)
        others = [one for one in self.machines if one is not leader]
        slow = others.pop(self._chance.below(len(others)))
        slow.disk_ms = disk_ms
        if stall_ms:
            self._stall(slow, stall_ms)
        self._run_for(3_000 + self._chance.below(2_000))
        for machine in [leader, *others[: dead - 1]]:
            machine.crash(Loss.NONE)
        began, before = self.time.now_ms(), self.ghosts.committed_end
        # The entry that announces a leader is committed with the first, a proposal with the second.
        self._run_until(lambda: self.ghosts.committed_end > before + 4, "the failover", 60_000)
        took_ms = self.time.now_ms() - began
        epoch = self._epoch()
        self._run_for(10_000)
        return took_ms, self._epoch() - epoch

    def _stall(self, machine: Machine, stall_ms: int) -> None:
        """Let a node do what has come up, once in a while."""
        if machine.node is not None:
            machine.go_on()
            machine.pause()
            self.time.at(stall_ms, lambda: self._stall(machine, stall_ms))

    def _run_for(self, ms: int) -> None:
        end = self.time.now_ms() + ms
        self._run_until(lambda: self.time.now_ms() >= end, "time", ms + 1_000)

    def _epoch(self) -> int:
        return max(int(self._member(one).epoch) for one in self.machines if one.node is not None)

    def _run_until(self, over: Callable[[], bool], what: str, limit_ms: int) -> None:
        if not self.time.run_until(over, limit_ms):
            state = [
                (machine.name, self._member(machine).epoch, self._member(machine).leader)
                for machine in self.machines
                if machine.node is not None
            ]
            raise AssertionError(f"{what} is not over after {limit_ms} ms: {state}")

    def _propose(self) -> None:
        for machine in self.machines:
            if machine.node is not None and machine.serving and self._member(machine).is_active:
                machine.do(lambda machine=machine: self._propose_to(machine))  # type: ignore[misc]
        self.time.at(5 + self._chance.below(self._propose_every_ms), self._propose)

    def _propose_to(self, machine: Machine) -> None:
        if machine.node is None:
            return  # What was held while it was paused may come after a crash.
        member = self._member(machine)
        if member.is_active:
            self._proposed += 1
            try:
                member.propose([b"%d" % self._proposed, b"more"])
            except StorageError as error:
                self.say(f"{machine.name} takes no proposal: {error}")

    def _agree(self) -> bool:
        members = [self._member(machine) for machine in self.machines if machine.node is not None]
        return len(members) == len(self.machines) and len({int(one.high_watermark) for one in members}) == 1

    def _stepped(self, machine: Machine) -> None:
        if machine.node is not None:
            self.ghosts.step(self._member(machine))

    def _member(self, machine: Machine) -> Any:
        return cast(Any, machine.node).member


_BOUNCING = 0
"""One seed of five has members die and come back all the time, in the middle of elections."""


def draw_quorum(seed: int) -> ClusterPlan:
    """What a seed means for a quorum alone: disks fail here in many ways."""
    plan = draw_cluster(seed, quiet=True)
    chance = SimRandom(seed).fork("quorum plan")
    strikes = tuple(
        replace(strike, blow=chance.pick((Blow.SYNC_FAILS, Blow.WRITE_FAILS, Blow.DISK_FULL, Blow.POWER)))
        if chance.happens(30)
        else strike
        for strike in plan.strikes
        if strike.blow not in (Blow.ROT, Blow.ROT_ALL)
    )
    crashes = chance.pick((Crashes.KILL, Crashes.POWER_SYNCED, Crashes.POWER_SYNCED))
    nodes = chance.pick((1, 3, 3, 3, 5))
    drifts = tuple(chance.below(2_001) - 1_000 for _ in range(nodes))
    clients = replace(plan.clients, crashes=crashes)
    # Those that have no patience stand for election at the same time, again and again.
    patience_ms = chance.pick((30, 60, 200, 1_000))
    if seed % 5 == _BOUNCING:
        patience_ms, nodes, drifts = 30, 3, drifts[:1] * 3
        strikes = tuple(
            Strike(number, number * 700, Blow.BOUNCE, Mark.ANY, 600)
            for number in range(clients.load_ms // 700)
        )
    settings = {
        **plan.settings,
        "controller.quorum.election.timeout.ms": str(patience_ms),
        "controller.quorum.election.backoff.max.ms": str(max(patience_ms // 2, 20)),
        "controller.quorum.fetch.timeout.ms": str(patience_ms * 3),
    }
    return replace(plan, clients=clients, strikes=strikes, nodes=nodes, drifts_ppm=drifts, settings=settings)


def run_quorum_seed(seed: int, trace: Trace | None = None) -> int:
    """Run one seed; what goes wrong inside is raised with the seed's plan."""
    plan = draw_quorum(seed)
    try:
        return QuorumWorld(plan, trace).run()
    except Exception as error:
        error.add_note(str(plan))
        raise


def slow_world(seed: int, voters: int) -> QuorumWorld:
    """A quorum with Kafka's time-outs and nothing that strikes it, for `fail_over`."""
    plan = replace(draw_quorum(seed), nodes=voters, drifts_ppm=(0,) * voters, settings={}, strikes=())
    return QuorumWorld(plan)
