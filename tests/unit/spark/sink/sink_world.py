"""A cluster and Spark in miniature: drivers that crash, wake up late and compete, transactions that time out.

Everything that happens is one step of one actor, in an order that a seed chooses. The steps of a commit are
those of the sink itself, or of a mutant that a test puts in its place.
"""

import random
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from everlog.client.core.errors import Fenced
from everlog.client.core.txn.prepared import PreparedTransaction
from everlog.spark.sink.protocol import (
    Abort,
    Announce,
    Commit,
    Decide,
    Decision,
    FindOpen,
    Gone,
    Held,
    Hold,
    ReadDecision,
    ShutOutOthers,
    Step,
    Steps,
    commit_batch,
)

TASKS = 2
BATCHES = 4
MakeSteps = Callable[[int, Sequence[PreparedTransaction], int], Steps]


class Lost(Exception):
    """What was decided cannot be committed any more."""


class Stale(Exception):
    """A driver would commit what was committed long ago, its successor being batches ahead; it fails."""


@dataclass
class Txn:
    """A transactional id and its last transaction."""

    epoch: int
    rows: tuple[str, ...]
    state: str = "open"
    held: bool = False


@dataclass
class World:
    """The cluster, and Spark's note of which batches are done."""

    chance: random.Random
    can_hold: bool = True
    asks: bool = True
    """Whether tasks ask for the decision before they write."""
    make_steps: MakeSteps = commit_batch
    txns: dict[str, Txn] = field(default_factory=dict[str, Txn])
    over: dict[tuple[str, int], str] = field(default_factory=dict[tuple[str, int], str])
    """How transactions ended whose ids were used again."""
    seen: Counter[str] = field(default_factory=Counter[str])
    decisions: list[Decision] = field(default_factory=list[Decision])
    owner: str | None = None
    done: set[int] = field(default_factory=set[int])
    batches: int = BATCHES

    def next_batch(self) -> int | None:
        """Where a driver goes on, by Spark's checkpoint."""
        return next((one for one in range(self.batches) if one not in self.done), None)

    @property
    def last(self) -> Decision | None:
        """The last decision, as anybody can read it."""
        return self.decisions[-1] if self.decisions else None

    def write(self, name: str, rows: tuple[str, ...]) -> PreparedTransaction:
        """A task writes under a transactional id; what was open there is aborted, as always."""
        before = self.txns.get(name)
        if before is not None:
            ended = "aborted" if before.state == "open" else before.state
            self.over[name, before.epoch] = ended
        self.txns[name] = Txn(0 if before is None else before.epoch + 1, rows)
        return PreparedTransaction(name, 1, self.txns[name].epoch)

    def time_out_something(self) -> None:
        """A coordinator aborts what was open for too long."""
        names = [name for name, txn in self.txns.items() if txn.state == "open" and not txn.held]
        if names:
            self.txns[self.chance.choice(sorted(names))].state = "aborted"

    # What drivers ask for.

    def hold(self, wanted: Sequence[PreparedTransaction]) -> Held:
        for one in wanted:
            if not self._is_open(one):
                raise Gone(one.transactional_id)
        if self.can_hold:
            for one in wanted:
                self.txns[one.transactional_id].held = True
        return Held(tuple(wanted), self.can_hold)

    def find_open(self) -> tuple[PreparedTransaction, ...]:
        return tuple(
            PreparedTransaction(name, 1, txn.epoch) for name, txn in self.txns.items() if txn.state == "open"
        )

    def commit(self, decision: Decision) -> None:
        for one in decision.transactions:
            txn = self.txns[one.transactional_id]
            if self.over.get((one.transactional_id, one.producer_epoch)) == "committed":
                raise Stale(f"{one} of batch {decision.batch}")
            if txn.epoch != one.producer_epoch or txn.state == "aborted":
                raise Lost(f"{one} of batch {decision.batch} is {txn}")
            if txn.state == "open":
                txn.state = "committed"
                self.seen.update(txn.rows)

    def abort(self, wanted: Sequence[PreparedTransaction]) -> None:
        for one in wanted:
            if self._is_open(one):
                self.txns[one.transactional_id].state = "aborted"

    def _is_open(self, one: PreparedTransaction) -> bool:
        txn = self.txns[one.transactional_id]
        return txn.state == "open" and txn.epoch == one.producer_epoch


class Driver:
    """One run of the query: it goes from batch to batch until it crashes, fails or has nothing to do."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self._owns = False
        self._last: Decision | None = None
        self._ids: dict[str, int] = {}
        """The batch that each transactional id of this run was used for last."""
        self._made = 0

    def run(self) -> Generator[None]:
        """Yields wherever something else may happen in between."""
        first = self.world.next_batch()
        while (batch := self.world.next_batch()) is not None:
            written: list[PreparedTransaction] = []
            skipped = 0
            for task in range(TASKS):
                yield
                last = self.world.last
                if self.world.asks and batch == first and last is not None and last.batch >= batch:
                    skipped += 1
                    continue
                yield
                rows = tuple(f"{batch}.{task}.{row}" for row in range(2))
                if self.world.chance.random() < 0.2:
                    self.world.write(self._lend(batch), rows)  # An attempt that dies, or loses a race.
                    yield
                written.append(self.world.write(self._lend(batch), rows))
            try:
                yield from self._commit(batch, written, skipped)
            except (Gone, Fenced, Stale):
                return  # The query fails, and is started again.
            yield
            self.world.done.add(batch)

    def _lend(self, batch: int) -> str:
        """An id for a task, by the rule of the pool: only for a later batch of this run it is used again."""
        name = next((one for one, used in self._ids.items() if used < batch), None)
        if name is None:
            name = f"{self.name}.{self._made}"
            self._made += 1
        self._ids[name] = batch
        return name

    def _commit(self, batch: int, written: list[PreparedTransaction], skipped: int) -> Generator[None]:
        kept = self._owns
        try:
            yield from self._carry_out(self.world.make_steps(batch, written, skipped))
        except Fenced:
            if not kept:
                raise
            yield from self._carry_out(self.world.make_steps(batch, written, skipped))

    def _carry_out(self, steps: Steps) -> Generator[None]:
        try:
            step = next(steps)
            while True:
                yield
                try:
                    answer = self._do(step)
                except (Gone, Fenced) as error:
                    if isinstance(error, Fenced):
                        self._owns = False
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration:
            return

    def _do(self, step: Step) -> object:
        world = self.world
        match step:
            case ShutOutOthers():
                if not self._owns:
                    world.owner, self._owns, self._last = self.name, True, world.last
                return self._last
            case ReadDecision():
                return world.last
            case Hold(transactions):
                return world.hold(transactions)
            case Announce():
                raise AssertionError("only a write without a name announces its commit")
            case FindOpen(beside):
                return tuple(one for one in world.find_open() if one.transactional_id not in beside)
            case Decide(decision):
                if world.owner != self.name:
                    raise Fenced(self.name)
                world.decisions.append(decision)
                self._last = decision
                return None
            case Commit(decision):
                world.commit(decision)
                return None
            case Abort(transactions):
                world.abort(transactions)
                return None


def play(world: World, *, zombies: bool = True) -> None:
    """Run drivers until all batches are done: they crash, are replaced, and some wake up again later."""
    chance = world.chance
    number = 0
    actors: list[Generator[None]] = []
    asleep: list[Generator[None]] = []
    for _ in range(4000):
        if not actors:
            if world.next_batch() is None:
                break
            actors.append(Driver(world, f"run{number}").run())
            number += 1
        actor = chance.choice(actors)
        if next(actor, "over") == "over":
            actors.remove(actor)
            continue
        dice = chance.random()
        if dice < 0.04:
            actors.remove(actor)
            if zombies and chance.random() < 0.6:
                asleep.append(actor)
        elif dice < 0.08 and asleep:
            actors.append(asleep.pop(chance.randrange(len(asleep))))
        elif dice < 0.10 and world.can_hold:
            world.time_out_something()
    for actor in actors + asleep:  # What slept longest wakes up last, when all is done.
        for _ in actor:
            pass


def settle(world: World) -> None:
    """A driver alone does what is left, and one more batch."""
    world.batches += 1
    for number in range(20):
        if world.next_batch() is None:
            return
        for _ in Driver(world, f"last{number}").run():
            pass
    raise AssertionError("a driver that nobody disturbs does not come to an end")


def problems(world: World) -> list[str]:
    """What is wrong with the output."""
    expected = {
        f"{batch}.{task}.{row}" for batch in range(world.batches) for task in range(TASKS) for row in range(2)
    }
    found = [f"{row} is there {world.seen[row]} times" for row in sorted(expected) if world.seen[row] != 1]
    found += [f"{name} is left open" for name, txn in world.txns.items() if txn.state == "open"]
    return found
