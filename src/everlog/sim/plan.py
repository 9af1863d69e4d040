"""What a seed means: how bad the network is, what breaks and when, which clients there are.

Rates are drawn anew for each seed over wide ranges, and much is left out of any one seed: one fixed mixture
would hide whatever needs another.
"""

from dataclasses import dataclass
from enum import StrEnum

from everlog.sim.chance import SimRandom
from everlog.sim.network import Weather


class Crashes(StrEnum):
    """What the crashes of a run do to the disk, and what may be asked of it then."""

    KILL = "kill"
    """The process dies and the page cache stays: all that was acknowledged must be there."""
    POWER_SYNCED = "power, synced"
    """Unsynced writes are lost, and every acknowledgement waits for the disk: the same must hold."""
    POWER = "power"
    """Unsynced writes are lost, and acknowledgements do not wait: what is left must be a sound prefix."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One run, as drawn from its seed."""

    seed: int
    crashes: Crashes
    load_ms: int
    weather: Weather
    faults: tuple[tuple[int, str], ...]
    """When what is done, in order: kill, kill soon, stop, pause, jump, cut, storm."""
    settings: tuple[tuple[str, str], ...]
    segment_bytes: int
    partitions: int
    plain_appenders: int
    idempotent_appenders: int
    readers: int
    transactors: int
    members: int
    protocol: str
    pipelines: int
    internal_segment_bytes: int
    """Of the coordinators' own topics; 0 leaves them to be made at first use, with large segments."""

    compacted: bool
    """Whether the topic of transactions is compacted."""
    delete_retention_ms: int

    client_kills: tuple[tuple[int, int], ...] = ()
    """When which process is killed, where clients are processes."""
    replication: int = 1
    """How many replicas each partition has."""
    drowsy: int = 2
    """How often, of a hundred times, members of groups are away for longer than their groups wait."""
    slowness: int = 1
    """How many times longer than usual clients pause."""
    absent: frozenset[str] = frozenset()
    """Clients that are left out, where a run that failed is made smaller."""

    def __str__(self) -> str:
        faults = ", ".join(f"{what} at {at}" for at, what in self.faults) or "no faults"
        clients = (
            f"{self.plain_appenders}+{self.idempotent_appenders} appenders, {self.readers} readers, "
            f"{self.transactors} transactors{' (compacted)' if self.compacted else ''}, "
            f"{self.members} {self.protocol} members, "
            f"{self.pipelines} pipelines"
        )
        kills = "".join(f", kill of process {number} at {at}" for at, number in self.client_kills)
        return f"seed {self.seed}: {self.crashes}; {self.weather}; {clients}; {faults}{kills}"


def draw(seed: int) -> Plan:
    """What a seed means."""
    chance = SimRandom(seed).fork("plan")
    crashes = chance.pick((Crashes.KILL, Crashes.KILL, Crashes.POWER_SYNCED, Crashes.POWER))
    load_ms = 1_000 + chance.below(2_500)
    only_appends = crashes is Crashes.POWER
    busy = not only_appends and chance.happens(70)
    return Plan(
        seed=seed,
        crashes=crashes,
        load_ms=load_ms,
        weather=_weather(chance),
        faults=_faults(chance, load_ms),
        settings=_settings(chance, crashes),
        segment_bytes=chance.pick((1_000, 3_000, 20_000, 1 << 20)),
        partitions=1 + chance.below(3),
        plain_appenders=chance.below(3),
        idempotent_appenders=1 + chance.below(2),
        readers=1 + chance.below(2),
        transactors=chance.below(4) if busy else 0,
        members=chance.below(4) if busy else 0,
        protocol=chance.pick(("classic", "consumer")),
        pipelines=chance.below(3) if busy else 0,
        internal_segment_bytes=chance.pick((0, 0, 1_500, 6_000)),
        compacted=chance.happens(40),
        delete_retention_ms=chance.pick((100, 86_400_000)),
    )


def draw_clients(seed: int) -> Plan:
    """What a seed means for the public clients.

    The page cache outlives every crash: readers see records before they are durable, and no client can know
    that what it has worked on was lost with the power.
    """
    chance = SimRandom(seed).fork("plan of clients")
    load_ms = 1_500 + chance.below(3_000)
    faults = _faults(chance, load_ms)
    kills = chance.below(4) if chance.happens(60) else 0
    return Plan(
        seed=seed,
        crashes=Crashes.KILL,
        load_ms=load_ms,
        weather=_weather(chance),
        faults=faults,
        settings=_settings(chance, Crashes.KILL),
        segment_bytes=chance.pick((3_000, 20_000, 1 << 20)),
        partitions=1 + chance.below(3),
        plain_appenders=0,
        idempotent_appenders=1 + chance.below(2),
        transactors=0,
        members=chance.below(4),
        protocol=chance.pick(("classic", "consumer")),
        pipelines=chance.below(3),
        internal_segment_bytes=chance.pick((0, 0, 6_000)),
        compacted=False,
        delete_retention_ms=86_400_000,
        client_kills=tuple(sorted((chance.below(load_ms), chance.below(100)) for _ in range(kills))),
        readers=chance.below(3),
    )


def _weather(chance: SimRandom) -> Weather:
    return Weather(
        delay_ms=chance.pick((0, 2, 10, 40)),
        late_percent=chance.pick((0, 0, 1, 5, 20)),
        late_ms=chance.pick((50, 500, 5_000)),
        cut_percent=chance.pick((0, 0, 1, 3, 10)),
    )


def _faults(chance: SimRandom, load_ms: int) -> tuple[tuple[int, str], ...]:
    kinds = [
        kind for kind in ("kill", "kill soon", "stop", "pause", "jump", "cut", "storm") if chance.below(2)
    ]
    if not kinds:
        return ()
    count = chance.below(6)
    return tuple(sorted((chance.below(load_ms), chance.pick(kinds)) for _ in range(count)))


def _settings(chance: SimRandom, crashes: Crashes) -> tuple[tuple[str, str], ...]:
    settings = {
        "offsets.topic.num.partitions": "2",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": chance.pick(("0", "100")),
        "group.min.session.timeout.ms": "100",
        "group.consumer.min.session.timeout.ms": "100",
        "group.consumer.session.timeout.ms": "600",
        "group.consumer.min.heartbeat.interval.ms": "10",
        "group.consumer.heartbeat.interval.ms": "150",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        "log.cleaner.backoff.ms": chance.pick(("100", "1000", "15000")),
        "log.flush.offset.checkpoint.interval.ms": chance.pick(("500", "60000")),
    }
    if crashes is Crashes.POWER_SYNCED:
        settings["log.flush.interval.messages"] = "1"
    return tuple(settings.items())
