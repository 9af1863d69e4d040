"""Who is killed, at which step and in which surroundings: the same list for the same seed."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, groupby, islice

TASK_STEPS = ("task-begun", "task-sent", "task-prepared")
COMMIT_STEPS = (
    "commit-called",
    "after-ShutOutOthers",
    "after-Hold",
    "after-FindOpen",
    "deciding",
    "after-Decide",
    "after-Commit",
    "after-Abort",
    "commit-done",
)
TABLE_TASK_STEPS = ("mid-write", "staged")
SOMETIME = "sometime"
"""Not at a step: at a moment that chance chooses, while rows are on their way."""
TABLES = tuple(
    f"{form}-{mode}" for mode in ("append", "upsert", "rows") for form in ("parquet", "iceberg", "delta")
)
FAR = 100_000
"""So many kills of a plan are looked at for those that are asked for."""


@dataclass(frozen=True, slots=True)
class Life:
    """Surroundings that kills happen in: a broker, and a driver of Spark's that is begun again and again."""

    name: str
    two_phase: bool = True
    """Whether the broker takes part in two-phase commits; without, time-outs go on running."""
    executors: int = 0
    """Those of a standalone cluster, each a JVM; 0: tasks are run by the driver's JVM."""
    spark: bool = True
    """Without, its part is played by processes that have no JVM."""


HERE = Life("local")
NO_HOLDING = Life("no two-phase", two_phase=False)
CLUSTER = Life("cluster", executors=2)
SMALL = Life("small", spark=False)
SMALL_NO_HOLDING = Life("small, no two-phase", spark=False, two_phase=False)


@dataclass(frozen=True, slots=True)
class Kill:
    """One death that is wanted.

    `task` and `committer` are the Python process that gets to the step, `executor` one of a cluster's JVMs,
    `driver` the driver's JVM and its Python, `broker` the broker.
    """

    life: Life
    sink: str
    kind: str
    step: str

    @property
    def words(self) -> set[str]:
        """All that it can be asked for by: `delta-upsert` is of `delta`, of `upsert` and of `tables`."""
        of_sink = {self.sink} if self.sink == "topic" else {self.sink, *self.sink.split("-"), "tables"}
        return {*of_sink, self.kind, self.step, self.life.name}


def table_commit_steps(sink: str) -> tuple[str, ...]:
    """The steps of a table's commit; only Parquet's has all of them."""
    parquet = sink.startswith("parquet")
    return ("commit-planned", *(("commit-drafted", "commit-linked") if parquet else ()), "commit-made")


def steps_of(sink: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The steps of a task, and those of a commit."""
    if sink == "topic":
        return TASK_STEPS, COMMIT_STEPS
    return TABLE_TASK_STEPS, table_commit_steps(sink)


def plan(wanted: int, seed: int, only: Sequence[str] = ()) -> list[Kill]:
    """So many kills: first every step with every victim, then whatever chance brings, sink by sink.

    Each of `only` has words with commas in between, and all kills have one of the words: `driver,executor`
    and `sometime` are drivers and executors at moments that chance chooses. ValueError if there are no such.
    """
    asked = [set(one.split(",")) for one in only]
    kills = (kill for kill in islice(_all(seed), FAR) if all(words & kill.words for words in asked))
    found = list(islice(kills, wanted))
    if len(found) < wanted:
        known = sorted({word for kill in islice(_all(seed), 1000) for word in kill.words})
        raise ValueError(f"no {wanted} kills of the plan are {' and '.join(only)}; it has {', '.join(known)}")
    return found


def small_plan(wanted: int, seed: int, *, two_phase: bool) -> list[Kill]:
    """So many kills of those who play Spark's part: of any victim, at any step or moment."""
    chance = random.Random(seed)
    steps = {"task": (*TASK_STEPS, SOMETIME), "committer": COMMIT_STEPS}
    everywhere = (*TASK_STEPS, *COMMIT_STEPS, SOMETIME)
    life = SMALL if two_phase else SMALL_NO_HOLDING
    kills: list[Kill] = []
    for _ in range(wanted):
        kind = chance.choice(("task", "committer", "broker", "driver"))
        kills.append(Kill(life, "topic", kind, chance.choice(steps.get(kind, everywhere))))
    return kills


def cheap_first(kills: list[tuple[int, Kill]]) -> list[tuple[int, Kill]]:
    """The same kills, those that start no JVM before the others, and those of one life and sink together."""
    lives, sinks = (SMALL, SMALL_NO_HOLDING, HERE, NO_HOLDING, CLUSTER), ("topic", *TABLES)

    def place(one: tuple[int, Kill]) -> tuple[bool, int, int, int]:
        number, kill = one
        costly = kill.kind in ("driver", "executor")
        return costly, lives.index(kill.life), sinks.index(kill.sink), number

    return sorted(kills, key=place)


def rounds(kills: list[tuple[int, Kill]], seed: int) -> list[list[tuple[int, Kill]]]:
    """Kills in rounds of one to three that come without waiting for recovery in between."""
    chance = random.Random(seed)
    found: list[list[tuple[int, Kill]]] = []
    for _, block in groupby(kills, key=lambda one: (one[1].life, one[1].sink)):
        left = list(block)
        while left:
            size = chance.choice((1, 2, 2, 3))
            found.append(left[:size])
            left = left[size:]
    return found


def _all(seed: int) -> Iterator[Kill]:
    chance = random.Random(seed)
    yield from _systematic()
    while True:
        yield from _by_chance(chance)


def _systematic() -> list[Kill]:
    tasks, commits = steps_of("topic")
    kills = _block(HERE, "topic", ("broker",), (*tasks, *commits), own=True)
    of_tables = [_of_a_table(table, step) for table, step in zip(TABLES, cycle((0, 1, 2)), strict=False)]
    kills += [kill for block in of_tables[:3] for kill in block]
    kills += _block(CLUSTER, "topic", ("executor",), (*tasks, *commits), own=False)
    kills += _block(HERE, "topic", ("driver",), (*tasks, *commits), own=False)
    kills += [kill for block in of_tables[3:] for kill in block]
    kills += _block(NO_HOLDING, "topic", ("driver",), ("task-prepared", "after-Decide"), own=True)
    for table in TABLES[:3]:
        kills += _block(CLUSTER, table, ("executor",), TABLE_TASK_STEPS, own=False)
    return kills


def _block(
    life: Life, sink: str, victims: tuple[str, ...], steps: tuple[str, ...], *, own: bool
) -> list[Kill]:
    kills: list[Kill] = []
    if own:
        tasks, commits = steps_of(sink)
        kills += [Kill(life, sink, "task", step) for step in (*tasks, SOMETIME)]
        kills += [Kill(life, sink, "committer", step) for step in commits]
    kills += [Kill(life, sink, victim, step) for victim in victims for step in (*steps, SOMETIME)]
    return kills


def _of_a_table(table: str, turn: int) -> list[Kill]:
    commits = steps_of(table)[1]
    kills = _block(HERE, table, ("broker",), ("mid-write", "commit-planned"), own=True)
    driver = ("mid-write", commits[0], commits[-1])[turn]
    return [*kills, Kill(HERE, table, "driver", driver), Kill(HERE, table, "driver", SOMETIME)]


def _by_chance(chance: random.Random) -> list[Kill]:
    """Kills of three sinks in one life, each of a victim and at a step that came up."""
    life = chance.choice((HERE, HERE, HERE, HERE, NO_HOLDING, CLUSTER))
    kills: list[Kill] = []
    for _ in range(3):
        sink = chance.choice(("topic", "topic", *TABLES))
        tasks, commits = steps_of(sink)
        for _ in range(10):
            kind = chance.choice(("task", "task", "committer", "committer", "broker", "broker", "driver"))
            if life.executors and chance.random() < 0.5:
                kind = "executor"
            steps = {"task": (*tasks, SOMETIME), "committer": commits}.get(kind, (*tasks, *commits, SOMETIME))
            kills.append(Kill(life, sink, kind, chance.choice(steps)))
    return kills
