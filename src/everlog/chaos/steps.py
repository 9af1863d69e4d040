"""What is done to a cluster, one thing after the other: steps as data, and the scenarios that they make."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from everlog.model.errors import ConfigError


class Who(StrEnum):
    """Which broker a step is about; decided when the step begins."""

    LEADER = "leader"
    """The one that leads the first partition of the topic."""
    FOLLOWER = "follower"
    """One that follows there and leads least."""
    CONTROLLER = "controller"
    """The active controller."""


class Verb(StrEnum):
    """What a step does."""

    LOAD = "load"
    SLOW_DISK = "slow-disk"
    AWAIT_SHRINK = "await-shrink"
    KILL = "kill"
    PAUSE = "pause"
    STOP = "stop"
    AWAIT_WRITABLE = "await-writable"
    HEAL = "heal"
    SCALE = "scale"
    RESTART_ALL = "restart-all"
    FILL_DISK = "fill-disk"
    FAIL_FSYNC = "fail-fsync"
    JUMP_CLOCK = "jump-clock"


@dataclass(frozen=True, slots=True)
class Grammar:
    """How a verb is written, and what it means."""

    takes_who: bool
    unit: str
    """What its amount counts; empty if it takes none."""
    default: float
    meaning: str


GRAMMAR: Mapping[Verb, Grammar] = {
    Verb.LOAD: Grammar(False, "seconds", 5, "let the load run"),
    Verb.SLOW_DISK: Grammar(True, "", 0, "make a broker's disk slow until healed"),
    Verb.AWAIT_SHRINK: Grammar(False, "seconds", 60, "wait until some replica has left the ISR"),
    Verb.KILL: Grammar(True, "", 0, "end a broker with SIGKILL"),
    Verb.PAUSE: Grammar(True, "seconds", 5, "freeze a broker with SIGSTOP for so long"),
    Verb.STOP: Grammar(True, "", 0, "end a broker cleanly, as a service manager does"),
    Verb.AWAIT_WRITABLE: Grammar(False, "seconds", 60, "wait until every partition takes records again"),
    Verb.HEAL: Grammar(False, "seconds", 60, "end what is broken, start who is down, wait for a full ISR"),
    Verb.SCALE: Grammar(False, "members", 3, "let the group have so many members"),
    Verb.RESTART_ALL: Grammar(False, "seconds", 60, "restart the brokers one after the other, each healed"),
    Verb.FILL_DISK: Grammar(True, "", 0, "let a broker's writes find no space until healed"),
    Verb.FAIL_FSYNC: Grammar(True, "", 0, "let a broker's fsync fail until healed"),
    Verb.JUMP_CLOCK: Grammar(True, "seconds", 3600, "set a broker's clock forward, or back if negative"),
}


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do."""

    verb: Verb
    who: Who | None = None
    amount: float = 0

    def __str__(self) -> str:
        parts: list[str] = [self.verb]
        if self.who is not None:
            parts.append(self.who)
        if GRAMMAR[self.verb].unit:
            parts.append(f"{self.amount:g}")
        return ":".join(parts)


def parse_step(text: str) -> Step:
    """Read a step such as `kill:leader` or `pause:leader:5`; ConfigError says what was expected."""
    word, *arguments = text.strip().split(":")
    try:
        verb = Verb(word)
    except ValueError:
        raise ConfigError(f"step {text!r} cannot be read: expected one of {', '.join(Verb)}") from None
    grammar = GRAMMAR[verb]
    who = None
    if grammar.takes_who:
        name = arguments.pop(0) if arguments else ""
        try:
            who = Who(name)
        except ValueError:
            raise ConfigError(f"step {text!r} says {name!r}: expected {verb}:{'|'.join(Who)}") from None
    amount = grammar.default
    if arguments and grammar.unit:
        number = arguments.pop(0)
        try:
            amount = float(number)
        except ValueError:
            raise ConfigError(f"step {text!r} says {number!r}: expected a number of {grammar.unit}") from None
        if amount < 0 and verb is not Verb.JUMP_CLOCK:
            raise ConfigError(f"step {text!r} says {number}: expected 0 {grammar.unit} or more")
    if arguments:
        raise ConfigError(f"step {text!r} says {':'.join(arguments)!r} too much: {grammar.meaning}")
    return Step(verb, who, amount)


def parse_steps(texts: Iterable[str]) -> list[Step]:
    """Read steps, none of them empty."""
    return [parse_step(text) for text in texts]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Steps under a name, and what the topic promises in it."""

    name: str
    meaning: str
    steps: Sequence[Step]
    min_isr: int = 2
    unavailable_ms: float = 5_000.0
    """For how long after a fault a partition may take no records."""
    transactions: float = 0.0
    """Transactions a second beside the records."""


def _scenario(
    name: str,
    meaning: str,
    steps: str,
    min_isr: int = 2,
    unavailable_ms: float = 5_000.0,
    transactions: float = 0.0,
) -> Scenario:
    return Scenario(name, meaning, parse_steps(steps.split()), min_isr, unavailable_ms, transactions)


SCENARIOS: Mapping[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        # With one follower behind and the leader gone, one of three replicas is left in sync. With
        # min.insync.replicas=2 it would rightly refuse writes until another is back; with 1 it takes them,
        # and loses nothing as long as leaders come from the ISR, which is what is looked at here. Of three
        # voters one is dead and one slow then: each change of a leader waits for the slow one's disk, and so
        # does each vote if the dead one was the active controller.
        _scenario(
            "failover",
            "a follower with a slow disk leaves the ISR, then the leader is killed, then a group is scaled",
            "load:5 slow-disk:follower await-shrink load:2 kill:leader await-writable load:3 heal load:3 "
            "scale:3 load:5 scale:1 load:5",
            min_isr=1,
            unavailable_ms=20_000,
        ),
        _scenario("kill", "the leader is killed", "load:5 kill:leader await-writable load:3 heal load:2"),
        _scenario(
            "controller",
            "the controller is killed",
            "load:5 kill:controller await-writable load:3 heal load:2",
        ),
        _scenario(
            "pause",
            "the leader is frozen for longer than its session, and goes on as if nothing had been",
            "load:5 pause:leader:15 await-writable load:3 heal load:2",
            unavailable_ms=12_000,
        ),
        _scenario(
            "stop", "the leader leaves cleanly", "load:5 stop:leader await-writable load:3 heal load:2"
        ),
        _scenario("rolling", "every broker is restarted, one after the other", "load:5 restart-all load:5"),
        _scenario(
            "transactions",
            "every broker is restarted, one after the other, then the leader is killed, under transactions",
            "load:3 restart-all load:3 kill:leader await-writable heal load:3",
            transactions=20.0,
        ),
        _scenario(
            "disk-full",
            "the leader's disk is full",
            "load:5 fill-disk:leader load:3 await-writable heal load:3",
        ),
        _scenario(
            "fsync", "the leader's fsync fails", "load:5 fail-fsync:leader load:5 await-writable heal load:3"
        ),
        _scenario(
            "clock",
            "the leader's clock jumps an hour ahead and back",
            "load:5 jump-clock:leader:3600 load:5 await-writable jump-clock:leader:-3600 load:5 heal load:2",
        ),
    )
}
