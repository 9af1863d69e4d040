"""What a seed means for a cluster: how many nodes, how bad the network, what is struck when, who works on it.

Whatever a strike needs is drawn here or from a chance of its own, so that a run without one of them is the
same run but for that. Which node is meant may be said by what it does then: the one that leads the quorum, or
a partition.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from everlog.sim.chance import SimRandom
from everlog.sim.network import Weather
from everlog.sim.plan import Crashes, Plan
from everlog.sim.workloads.errands import Errand


class Blow(StrEnum):
    """What is done to a cluster."""

    KILL = "kill"
    """The process dies; the page cache stays."""
    KILL_SOON = "kill soon"
    """It dies in the middle of one of its next disk operations."""
    KILL_ALL = "kill all"
    BOUNCE = "bounce"
    """One process after another dies and is back at once, as long as it lasts."""
    STRAND = "strand"
    """A follower is cut off, and its leader dies as soon as it has committed something without it."""
    RELAPSE = "relapse"
    """A follower dies as soon as it is about to count as in sync, and is back before it does."""
    POWER = "power"
    """One machine loses power, and what it has not synced."""
    POWER_ALL = "power all"
    """All machines do, at once; only where acknowledgements wait for disks, or loss is expected."""
    STOP = "stop"
    """A clean stop, with leadership handed over first."""
    PAUSE = "pause"
    """Nothing of it runs for a while, as with SIGSTOP."""
    JUMP = "jump"
    """Its wall clock is set."""
    RESET = "reset"
    """Some of its connections are reset."""
    ISOLATE = "isolate"
    """Nobody reaches it and it reaches nobody; or only one of the two."""
    SPLIT = "split"
    """The nodes fall into two parts."""
    BRIDGE = "bridge"
    """Two nodes do not reach each other, the others reach both."""
    CLOG = "clog"
    """One route lets nothing through for a while, then everything."""
    SWIZZLE = "swizzle"
    """Routes are closed one by one and opened in another order."""
    STORM = "storm"
    """All routes are slow and lossy for a while."""
    SLOW = "slow"
    """The routes of one node are."""
    WRITE_FAILS = "write fails"
    SYNC_FAILS = "sync fails"
    """A sync fails once, and what it was for is lost without another word."""
    DISK_FULL = "disk full"
    ROT = "rot"
    """A bit of a log changes while its node is down."""
    ROT_ALL = "rot all"
    """All processes die, and a bit of a log of one of them changes."""


class Mark(StrEnum):
    """Which node is struck."""

    ANY = "any"
    CONTROLLER = "controller"
    LEADER = "leader"
    """One that leads a partition."""
    COORDINATOR = "coordinator"
    """One that leads a partition of a coordinator's topic."""


@dataclass(frozen=True, slots=True)
class Strike:
    """One thing that is done, when, to whom, and for how long."""

    number: int
    """Its place among those that were drawn; its chance is its own."""
    at_ms: int
    blow: Blow
    mark: Mark
    lasts_ms: int

    def __str__(self) -> str:
        whom = "" if self.mark is Mark.ANY else f" of {self.mark}"
        return f"{self.blow}{whom} at {self.at_ms} for {self.lasts_ms}"


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """One run of a cluster."""

    clients: Plan
    """Who works, for how long, and in which weather."""
    nodes: int
    strikes: tuple[Strike, ...]
    drifts_ppm: tuple[int, ...]
    """By how many millionths each node's clock is too fast."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of every node."""
    errands: tuple[Errand, ...] = ()
    """What is changed on purpose meanwhile."""

    @property
    def seed(self) -> int:
        """What all of it came from."""
        return self.clients.seed

    @property
    def crashes(self) -> Crashes:
        """What crashes do to disks."""
        return self.clients.crashes

    def __str__(self) -> str:
        strikes = ", ".join(map(str, self.strikes)) or "no strikes"
        absent = f" without {', '.join(sorted(self.clients.absent))}" if self.clients.absent else ""
        chosen = {key: value for key, value in self.settings.items() if key in _DRAWN}
        errands = ", ".join(self.errands) or "no errands"
        return f"{self.nodes} nodes, {self.clients}{absent}; {chosen}; {errands}; {strikes}"


SESSION_MS = 2_000
"""How long the members of a group may be silent."""

_PROCESS = (Blow.KILL, Blow.KILL_SOON, Blow.STOP, Blow.PAUSE, Blow.KILL_ALL)
_NETWORK = (
    Blow.RESET,
    Blow.ISOLATE,
    Blow.SPLIT,
    Blow.BRIDGE,
    Blow.CLOG,
    Blow.SWIZZLE,
    Blow.STORM,
    Blow.SLOW,
)
_DISK = (Blow.WRITE_FAILS, Blow.SYNC_FAILS, Blow.DISK_FULL)


def draw_cluster(seed: int, *, quiet: bool = False) -> ClusterPlan:
    """What a seed means; what a quiet one means is the same without anything that is changed on purpose."""
    chance = SimRandom(seed).fork("cluster plan")
    crashes = chance.pick((Crashes.KILL, Crashes.KILL, Crashes.POWER_SYNCED, Crashes.POWER))
    load_ms = 2_000 + chance.below(3_000)
    work = chance.pick(("appends", "transactions", "groups", "pipelines", "all"))
    nodes = chance.pick((3, 3, 3, 3, 4, 5))
    settings = _settings(chance, crashes)
    clients = Plan(
        seed=seed,
        crashes=crashes,
        load_ms=load_ms,
        weather=_weather(chance),
        faults=(),
        settings=(),
        segment_bytes=chance.pick((1_000, 3_000, 20_000, 1 << 20)),
        partitions=1 + chance.below(3),
        plain_appenders=chance.below(2),
        idempotent_appenders=1 + chance.below(2),
        readers=1,
        transactors=1 + chance.below(2) if work in ("transactions", "all") else 0,
        members=1 + chance.below(2) if work in ("groups", "all") else 0,
        protocol=chance.pick(("classic", "consumer")),
        pipelines=1 + chance.below(2) if work in ("pipelines", "all") else 0,
        internal_segment_bytes=0,
        compacted=False,
        delete_retention_ms=86_400_000,
        replication=3,
        slowness=chance.pick((2, 4, 8)),
    )
    drifts = tuple(chance.below(2_001) - 1_000 for _ in range(nodes))
    plan = ClusterPlan(clients, nodes, _strikes(chance, load_ms, crashes), drifts, settings)
    plan = _rotting(_restless(plan) if seed % 4 == _RESTLESS else plan)
    return plan if quiet else _busy(plan)


_RESTLESS = 3
"""One seed of four has its leaders changed all the time, as fast as the cluster can."""


def _about_strikes(
    plan: ClusterPlan, clients: Plan, strikes: tuple[Strike, ...], settings: dict[str, str]
) -> ClusterPlan:
    """The plan as one of a few nodes that nothing happens to but the strikes."""
    return replace(
        plan,
        clients=clients,
        nodes=_FEWEST_NODES,
        drifts_ppm=plan.drifts_ppm[:_FEWEST_NODES],
        strikes=strikes,
        settings=settings,
        errands=(),
    )


def _restless(plan: ClusterPlan) -> ClusterPlan:
    chance = SimRandom(plan.seed).fork("restless")
    load_ms = 3_000 + chance.below(2_000)
    blows = (Blow.ISOLATE, Blow.ISOLATE, Blow.KILL, Blow.PAUSE, Blow.STOP, Blow.BRIDGE, Blow.POWER)
    times = sorted(chance.below(load_ms) for _ in range(8 + chance.below(8)))
    strikes = tuple(
        Strike(number, at_ms, chance.pick(blows), Mark.LEADER, 50 + chance.below(800))
        for number, at_ms in enumerate(times)
    )
    settings = {
        **plan.settings,
        "broker.session.timeout.ms": "400",
        "broker.heartbeat.interval.ms": "100",
        "replica.lag.time.max.ms": chance.pick(("300", "1000")),
        "controller.quorum.election.timeout.ms": "150",
        "controller.quorum.election.backoff.max.ms": "100",
        "controller.quorum.fetch.timeout.ms": "300",
    }
    clients = replace(
        plan.clients, load_ms=load_ms, partitions=1, plain_appenders=2, slowness=chance.pick((1, 2))
    )
    return _about_strikes(plan, clients, strikes, settings)


def _rotting(plan: ClusterPlan) -> ClusterPlan:
    """A plan in whose course bits of disks may change: one of five."""
    chance = SimRandom(plan.seed).fork("rot")
    if not chance.happens(20):
        return plan
    first = len(plan.strikes)
    strikes = tuple(
        Strike(
            first + number,
            plan.clients.load_ms // 3 + chance.below(plan.clients.load_ms * 2 // 3),
            chance.pick((Blow.ROT, Blow.ROT, Blow.ROT_ALL)),
            chance.pick((Mark.ANY, Mark.LEADER, Mark.COORDINATOR)),
            chance.pick((50, 400, 1_500)) + chance.below(300),
        )
        for number in range(1 + chance.below(3))
    )
    return replace(plan, strikes=plan.strikes + strikes)


def _busy(plan: ClusterPlan) -> ClusterPlan:
    """A plan with what is changed on purpose: in two runs of three, and not all of it in any."""
    chance = SimRandom(plan.seed).fork("errands")
    if chance.happens(33):
        return plan
    errands = tuple(errand for errand in Errand if chance.happens(30))
    nodes = plan.nodes
    if nodes == _FEWEST_NODES and {Errand.MOVE, Errand.EMPTY, Errand.VOTERS} & set(errands):
        # There is nowhere else to go with three.
        nodes += chance.below(2)
    drifts = plan.drifts_ppm + tuple(chance.below(2_001) - 1_000 for _ in range(nodes - plan.nodes))
    settings = dict(plan.settings)
    if chance.happens(50):
        # The metadata log begins anew all the time, and whoever was away has to load what it began from.
        settings["metadata.log.max.record.bytes.between.snapshots"] = chance.pick(("1000", "5000", "20000"))
    if Errand.READ_NEAR in errands:
        settings["replica.selector.class"] = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    clients = plan.clients
    if chance.happens(50) and clients.members + clients.pipelines:
        # Members that are away for longer than their group waits, often, and do not know it.
        settings["group.consumer.session.timeout.ms"] = "500"
        settings["group.consumer.heartbeat.interval.ms"] = "100"
        clients = replace(
            clients,
            drowsy=chance.pick((5, 20)),
            members=2 if clients.members else 0,
            pipelines=2 if clients.pipelines else 0,
            load_ms=clients.load_ms + 1_500,
        )
    if chance.happens(40):
        # Compaction, of what clients write and of what coordinators write.
        settings["log.cleaner.backoff.ms"] = chance.pick(("100", "1000"))
        settings["log.flush.offset.checkpoint.interval.ms"] = "500"
        clients = replace(
            clients,
            compacted=clients.transactors > 0,
            segment_bytes=chance.pick((1_000, 3_000)),
            internal_segment_bytes=chance.pick((0, 1_500, 6_000)),
            delete_retention_ms=chance.pick((100, 86_400_000)),
        )
    busy = replace(plan, clients=clients, nodes=nodes, drifts_ppm=drifts, settings=settings, errands=errands)
    return _narrow(busy, chance)


def _narrow(plan: ClusterPlan, chance: SimRandom) -> ClusterPlan:
    """One run of three is about one thing: much else at the same time would hide it."""
    about = chance.pick((*[None] * 6, Errand.FLIP, Blow.STRAND, Blow.RELAPSE))
    if about is None:
        return plan
    clients = replace(
        plan.clients,
        partitions=1,
        plain_appenders=2,
        transactors=0,
        members=0,
        pipelines=0,
        compacted=False,
        slowness=chance.pick((1, 2)),
    )
    if about is Errand.FLIP:
        # All stay in sync, and are far behind each other.
        late = Weather(chance.pick((10, 30, 60)), chance.pick((5, 20, 40)), chance.pick((200, 500)))
        settings = {"replica.lag.time.max.ms": "1500", "broker.session.timeout.ms": "3000"}
        return replace(
            plan,
            clients=replace(clients, weather=late),
            strikes=(),
            settings={**plan.settings, **settings},
            errands=(Errand.FLIP,),
        )
    assert isinstance(about, Blow)
    strikes = tuple(
        Strike(number, at_ms, about, Mark.LEADER, 600)
        for number, at_ms in enumerate(range(chance.below(600), clients.load_ms, 900))
    )
    crashes = Crashes.POWER if about is Blow.RELAPSE else clients.crashes
    # Nobody is to be taken for dead while what it has sent is held up.
    patience = "600" if about is Blow.STRAND else "3000"
    settings = {"replica.lag.time.max.ms": "300", "broker.session.timeout.ms": patience}
    settings = {
        key: value
        for key, value in {**plan.settings, **settings}.items()
        if key != "log.flush.interval.messages" or crashes is Crashes.POWER_SYNCED
    }
    calm = Weather(delay_ms=chance.pick((1, 2, 10)))
    clients = replace(clients, weather=calm, crashes=crashes)
    return _about_strikes(plan, clients, strikes, settings)


_FEWEST_NODES = 3


def draw_cluster_clients(seed: int) -> ClusterPlan:
    """What a seed means for the public clients on a cluster."""
    chance = SimRandom(seed).fork("cluster plan of clients")
    plan = draw_cluster(seed)
    kills = chance.below(3) if chance.happens(40) else 0
    load_ms = plan.clients.load_ms
    clients = replace(
        plan.clients,
        plain_appenders=0,
        transactors=0,
        readers=chance.below(2),
        client_kills=tuple(sorted((chance.below(load_ms), chance.below(100)) for _ in range(kills))),
    )
    return replace(plan, clients=clients)


def _weather(chance: SimRandom) -> Weather:
    return Weather(
        delay_ms=chance.pick((1, 2, 10, 30)),
        late_percent=chance.pick((0, 0, 1, 5, 20)),
        late_ms=chance.pick((50, 500, 3_000)),
        cut_percent=chance.pick((0, 0, 0, 1, 3)),
    )


def _strikes(chance: SimRandom, load_ms: int, crashes: Crashes) -> tuple[Strike, ...]:
    blows = [blow for blow in (*_PROCESS, *_NETWORK, Blow.JUMP) if chance.happens(30)]
    if chance.happens(25):
        blows += [blow for blow in _DISK if chance.happens(40)]
    if crashes is not Crashes.KILL:
        blows += [Blow.POWER, Blow.POWER]
        if chance.happens(40):
            blows.append(Blow.POWER_ALL)
    if not blows:
        return ()
    count = chance.below(9)
    times = sorted(chance.below(load_ms) for _ in range(count))
    return tuple(
        Strike(
            number,
            at_ms,
            chance.pick(blows),
            chance.pick((Mark.ANY, Mark.CONTROLLER, Mark.LEADER, Mark.COORDINATOR)),
            chance.pick((50, 400, 1_500, 4_000)) + chance.below(300),
        )
        for number, at_ms in enumerate(times)
    )


_DRAWN = frozenset(
    {
        "broker.session.timeout.ms",
        "replica.lag.time.max.ms",
        "controller.quorum.election.timeout.ms",
        "controller.quorum.fetch.timeout.ms",
        "log.flush.interval.messages",
        "replica.high.watermark.checkpoint.interval.ms",
        "metadata.log.max.record.bytes.between.snapshots",
        "log.cleaner.backoff.ms",
    }
)
"""Settings that are worth a word."""


def _settings(chance: SimRandom, crashes: Crashes) -> dict[str, str]:
    patience_ms = chance.pick((200, 500, 1_000))
    settings = {
        "min.insync.replicas": "2",
        "default.replication.factor": "3",
        "offsets.topic.num.partitions": "2",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "100",
        "group.consumer.min.session.timeout.ms": "100",
        "group.consumer.session.timeout.ms": str(SESSION_MS),
        "group.consumer.min.heartbeat.interval.ms": "10",
        "group.consumer.heartbeat.interval.ms": "150",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        "log.flush.offset.checkpoint.interval.ms": chance.pick(("500", "60000")),
        "replica.high.watermark.checkpoint.interval.ms": chance.pick(("300", "5000")),
        "broker.session.timeout.ms": chance.pick(("600", "1500", "3000")),
        "broker.heartbeat.interval.ms": "200",
        "replica.lag.time.max.ms": chance.pick(("500", "1500", "10000")),
        "controller.quorum.election.timeout.ms": str(patience_ms),
        "controller.quorum.election.backoff.max.ms": str(patience_ms),
        "controller.quorum.fetch.timeout.ms": str(patience_ms * 2),
    }
    if crashes is Crashes.POWER_SYNCED:
        settings["log.flush.interval.messages"] = "1"
    return settings
