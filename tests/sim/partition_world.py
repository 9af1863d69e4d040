"""One replicated partition alone: leaders, followers and elections in a world of late messages and crashes.

The controller is one actor that never fails, as a quorum looks from outside; brokers hear of what it decided
late, each at its own pace. Everything that decides is the real code.
"""

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from everlog.controller import elections
from everlog.controller.elections import Circumstances
from everlog.metadata.image import NO_LEADER, PartitionImage
from everlog.model.ids import BrokerId, Instant, LeaderEpoch, Offset
from everlog.replication import leader as leading
from everlog.replication.follower import Append, Fetched, FetchFrom, FollowerState, TruncateTo
from everlog.replication.leader import LeaderState

Entry = tuple[int, bytes]
LEAST_IN_SYNC = 2
LAG_MS = 300
REQUEST_TIMEOUT_MS = 200


class Violation(AssertionError):
    """A promise of replication was broken."""


class Log:
    """A partition's log in memory, with its leader epochs."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.kept = 0
        """So many survive the loss of power."""
        self.begun: tuple[int, int] | None = None
        """The epoch that is led here and where it began, though it may have no records yet."""

    @property
    def end_offset(self) -> Offset:
        return Offset(len(self.entries))

    @property
    def start_offset(self) -> Offset:
        return Offset(0)

    def last_epoch(self) -> LeaderEpoch:
        return LeaderEpoch(self.entries[-1][0] if self.entries else -1)

    def epoch_end(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        if self.begun is not None and epoch >= self.begun[0]:
            return LeaderEpoch(self.begun[0]), self.end_offset
        below = [index for index, entry in enumerate(self.entries) if entry[0] <= epoch]
        if not below:
            return LeaderEpoch(-1), Offset(0)
        return LeaderEpoch(self.entries[below[-1]][0]), Offset(below[-1] + 1)

    def truncate(self, end: Offset) -> None:
        del self.entries[end:]
        self.kept = min(self.kept, end)


@dataclass(frozen=True, slots=True)
class Image:
    """What the controller has decided so far."""

    version: int
    partition: PartitionImage
    brokers: dict[int, int]
    """The epoch of each broker's process."""
    active: frozenset[int]


@dataclass(slots=True)
class Broker:
    """One broker: its disk, and what it is while it runs."""

    id: int
    log: Log = field(default_factory=Log)
    noted_high_watermark: Offset = field(default=Offset(0))
    is_up: bool = True
    life: int = 0
    stopped_cleanly: bool = False
    epoch: int = 0
    image: Image | None = None
    role: LeaderState | FollowerState | None = None
    fetch_under_way: bool = False
    checked: int = 0
    """Up to here it was seen, since it leads, that what it shows is what was shown before."""
    waiting: list[tuple[Offset, bytes]] = field(default_factory=list[tuple[Offset, bytes]])

    @property
    def high_watermark(self) -> Offset:
        return self.noted_high_watermark if self.role is None else self.role.high_watermark


class PartitionWorld:
    """Runs from a seed; `run` raises Violation, or returns how many records were acknowledged."""

    def __init__(self, seed: int, size: int = 3) -> None:
        self._random = random.Random(seed)
        self.now = 0
        self._queue: list[tuple[int, int, Callable[[], object]]] = []
        self._serial = 0
        self.brokers = {number: Broker(number, epoch=number) for number in range(1, size + 1)}
        ids = tuple(self.brokers)
        pick = self._random.choice
        self.delay_ms = pick([3, 20, 150])
        self.loss = pick([0, 0.05, 0.2])
        self.crash = pick([0, 0.2, 0.5])
        self.stop = pick([0, 0.2])
        self.cut = pick([0, 0.4])
        self.pause_ms = pick([150, 700])
        self.moment = pick([0, 0.1, 0.5])
        partition = PartitionImage(ids, ids, 1, LeaderEpoch(0), 0, ())
        self.images = [Image(0, partition, {one: one for one in ids}, frozenset(ids))]
        self._epochs = 100
        self.cuts: set[tuple[int, int]] = set()
        self.weak: set[int] = set()
        """Brokers that lost records, or are down, and are not in sync again."""
        self.acknowledged: dict[int, Entry] = {}
        self.shown: dict[int, Entry] = {}
        """What was below some leader's high watermark."""
        self.leaders = 0
        self._values = 0
        for broker in self.brokers.values():
            self._publish_to(broker, self.images[0])
            self._arm(broker, broker.life)

    @property
    def image(self) -> Image:
        return self.images[-1]

    def run(self, until_ms: int = 30_000) -> int:
        """Faults for two thirds of the time, then none: in the end all are in sync and have the same."""
        self._at(100, self._nemesis)
        self._at(10, self._produce)
        healed = False
        while self._queue and self.now < until_ms:
            self.now, _, act = heapq.heappop(self._queue)
            if not healed and self.now > until_ms * 2 // 3:
                healed = True
                self._heal()
            act()
        partition = self.image.partition
        if partition.leader == NO_LEADER or set(partition.isr) != set(partition.replicas):
            raise Violation(f"in the end not all are in sync: {partition}")
        return len(self.acknowledged)

    # --- the controller

    def _decide(
        self, partition: PartitionImage | None, active: frozenset[int], brokers: dict[int, int]
    ) -> None:
        before = self.image
        changed = before.partition if partition is None else partition
        if (changed, active, brokers) == (before.partition, before.active, before.brokers):
            return
        image = Image(before.version + 1, changed, brokers, active)
        self.images.append(image)
        self._check_partition(changed)
        back = {one.id for one in self.brokers.values() if one.is_up and one.epoch == brokers[one.id]}
        self.weak -= set(changed.isr) & active & back
        for broker in self.brokers.values():
            self._later(broker, partial(self._tell, broker))

    def _tell(self, broker: Broker) -> None:
        self._publish_to(broker, self.image)

    def _circumstances(self, active: frozenset[int]) -> Circumstances:
        return Circumstances(active, LEAST_IN_SYNC)

    def _fence(self, number: int) -> None:
        image = self.image
        active = image.active - {number}
        changed = elections.without(image.partition, {number}, self._circumstances(active))
        self._decide(changed, active, image.brokers)

    def _register(self, number: int, *, clean: bool) -> int:
        image = self.image
        self._epochs += 1
        brokers = {**image.brokers, number: self._epochs}
        active = image.active - {number}
        circumstances = self._circumstances(active)
        unclean = frozenset[int]() if clean else frozenset({number})
        changed = elections.without(image.partition, {number}, circumstances, unclean=unclean)
        self._decide(changed, active, brokers)
        return self._epochs

    def _unfence(self, number: int, epoch: int) -> None:
        image = self.image
        if image.brokers[number] == epoch:
            active = image.active | {number}
            changed = elections.with_leader_wanted(image.partition, self._circumstances(active))
            self._decide(changed, active, image.brokers)

    def _alter(self, broker: int, leader_epoch: int, proposal: leading.ProposeIsr) -> bool:
        image = self.image
        partition = image.partition
        if partition.leader != broker or partition.leader_epoch != leader_epoch:
            return False
        if partition.partition_epoch != proposal.partition_epoch:
            return False
        for member, epoch in proposal.isr.items():
            if member not in image.active or epoch not in (-1, image.brokers[member]):
                return False
        changed = elections.with_isr(partition, proposal.isr, self._circumstances(image.active))
        self._decide(changed, image.active, image.brokers)
        if self._random.random() < self.moment:
            self._crash(self.brokers[broker])  # Before it hears that its proposal was taken.
        return True

    # --- brokers

    def _publish_to(self, broker: Broker, image: Image) -> None:
        if broker.image is not None and image.version <= broker.image.version:
            return
        before, broker.image = broker.image, image
        partition = image.partition
        role = broker.role
        if isinstance(role, LeaderState):
            self._do(broker, role.step(leading.BrokersChanged(self._eligible(image)), Instant(self.now)))
        if (
            before is not None
            and role is not None
            and before.partition.leader_epoch == partition.leader_epoch
        ):
            if isinstance(role, LeaderState):
                changed = leading.IsrChanged(self._ids(partition.isr), partition.partition_epoch)
                self._do(broker, role.step(changed, Instant(self.now)))
            return
        self._take_role(broker, image)

    def _take_role(self, broker: Broker, image: Image) -> None:
        partition = image.partition
        committed = min(broker.high_watermark, broker.log.end_offset)
        broker.noted_high_watermark = committed
        broker.waiting.clear()
        broker.fetch_under_way = False
        broker.log.begun = None
        if partition.leader == broker.id:
            # A leader that was started again in the same epoch may have lost its tail: not without a new one.
            if image.brokers[broker.id] != broker.epoch:
                broker.role = None
                return
            self.leaders += 1
            if partition.leader_epoch == self.image.partition.leader_epoch:
                self._check_leader(broker)
            broker.checked = 0
            broker.log.begun = (partition.leader_epoch, broker.log.end_offset)
            broker.role = LeaderState(
                BrokerId(broker.id),
                self._ids(partition.replicas),
                self._ids(partition.isr),
                partition.partition_epoch,
                broker.log.end_offset,
                committed,
                Instant(self.now),
                least_in_sync=LEAST_IN_SYNC,
                lag_ms_max=LAG_MS,
                eligible=self._eligible(image),
            )
            self._do(broker, broker.role.step(leading.Appended(broker.log.end_offset), Instant(self.now)))
        elif partition.leader != NO_LEADER:
            broker.role = FollowerState(partition.leader, partition.leader_epoch, broker.log, committed)
            self._fetch(broker)
        else:
            broker.role = None

    def _ids(self, numbers: Sequence[int]) -> frozenset[BrokerId]:
        return frozenset(BrokerId(number) for number in numbers)

    def _eligible(self, image: Image) -> dict[BrokerId, int]:
        return {BrokerId(number): image.brokers[number] for number in image.active}

    def _do(self, broker: Broker, effects: Sequence[leading.Effect]) -> None:
        role = broker.role
        assert isinstance(role, LeaderState)
        for effect in effects:
            match effect:
                case leading.AdvanceHighWatermark(end):
                    self._advanced(broker, role, end)
                case leading.ProposeIsr():
                    self._propose(broker, role, effect)

    def _advanced(self, broker: Broker, role: LeaderState, end: Offset) -> None:
        for offset in range(broker.checked, end):
            entry = broker.log.entries[offset]
            if self.shown.setdefault(offset, entry) != entry:
                raise Violation(f"offset {offset} was {self.shown[offset]}, broker {broker.id} shows {entry}")
        broker.checked = end
        for ends_at, value in list(broker.waiting):
            if role.has_all_of(ends_at):
                broker.waiting.remove((ends_at, value))
                self.acknowledged[ends_at - 1] = broker.log.entries[ends_at - 1]

    def _propose(self, broker: Broker, role: LeaderState, proposal: leading.ProposeIsr) -> None:
        assert broker.image is not None
        leader_epoch, life = broker.image.partition.leader_epoch, broker.life

        def answered(taken: bool) -> None:
            if broker.life == life and broker.role is role and not taken:
                self._do(broker, role.step(leading.ProposalRefused(), Instant(self.now)))

        def arrive() -> None:
            taken = self._alter(broker.id, leader_epoch, proposal)
            if broker.life == life:
                self._later(broker, lambda: answered(taken))

        if self._is_lost(broker.id, 0):
            # It was not heard at all: only then is a refusal true.
            self._at(REQUEST_TIMEOUT_MS, lambda: answered(False))
        else:
            self._later(broker, arrive)

    # --- fetches

    def _fetch(self, broker: Broker) -> None:
        role = broker.role
        if not isinstance(role, FollowerState) or broker.fetch_under_way:
            return
        broker.fetch_under_way = True
        asked, life, epoch = role.next_fetch(), broker.life, broker.epoch
        is_settled = False

        def settle(answer: tuple[Fetched, list[Entry]] | None) -> None:
            nonlocal is_settled
            if is_settled or broker.life != life or broker.role is not role:
                return
            is_settled = True
            broker.fetch_under_way = False
            if answer is None:
                self._at(20, lambda: self._fetch(broker) if broker.role is role else None)
            else:
                self._take(broker, role, asked, *answer)

        def arrive() -> None:
            leader = self.brokers[role.leader]
            if leader.is_up:
                self._serve(leader, broker.id, epoch, asked, settle)

        if not self._is_lost(broker.id, role.leader):
            self._at(self._delay(), arrive)
        self._at(REQUEST_TIMEOUT_MS, lambda: settle(None))

    def _serve(self, leader: Broker, follower: int, epoch: int, asked: FetchFrom, settle: Any) -> None:
        role, image = leader.role, leader.image
        if not isinstance(role, LeaderState) or image is None:
            answer = None
        elif image.partition.leader_epoch != asked.leader_epoch:
            answer = None  # FENCED_LEADER_EPOCH, or UNKNOWN_LEADER_EPOCH.
        else:
            found, end = leader.log.epoch_end(asked.last_epoch)
            diverges = asked.offset > 0 and (found != asked.last_epoch or end < asked.offset)
            if diverges:
                answer = (
                    Fetched(asked.leader_epoch, role.high_watermark, Offset(0), (found, end)),
                    list[Entry](),
                )
            else:
                fetched = leading.FollowerFetched(BrokerId(follower), epoch, asked.offset)
                self._do(leader, role.step(fetched, Instant(self.now)))
                entries = leader.log.entries[asked.offset : asked.offset + 4]
                answer = Fetched(asked.leader_epoch, role.high_watermark, Offset(0)), entries
        if not self._is_lost(leader.id, follower):
            self._at(self._delay(), lambda: settle(answer))

    def _take(
        self, broker: Broker, role: FollowerState, asked: FetchFrom, answer: Fetched, entries: list[Entry]
    ) -> None:
        match role.take(answer):
            case Append():
                assert broker.log.end_offset == asked.offset
                broker.log.entries += entries
                role.appended(answer)
            case TruncateTo(end):
                broker.log.truncate(end)
            case _:
                pass
        wait = 1 if entries or answer.diverging else 10
        self._at(wait, lambda: self._fetch(broker) if broker.role is role else None)

    # --- time, the network, and what goes wrong

    def _at(self, delay_ms: int, act: Callable[[], object]) -> None:
        self._serial += 1
        heapq.heappush(self._queue, (self.now + delay_ms, self._serial, act))

    def _delay(self) -> int:
        return 1 + self._random.randrange(self.delay_ms)

    def _later(self, broker: Broker, act: Callable[[], object]) -> None:
        """Something between a broker and the controller, unless the broker dies first."""
        life = broker.life

        def arrive() -> None:
            if broker.life == life and broker.is_up:
                act()

        wait = self._delay() + (REQUEST_TIMEOUT_MS if (broker.id, 0) in self.cuts else 0)
        self._at(wait, arrive)

    def _is_lost(self, start: int, end: int) -> bool:
        return (start, end) in self.cuts or self._random.random() < self.loss

    def _arm(self, broker: Broker, life: int) -> None:
        def tick() -> None:
            if broker.life == life and broker.is_up:
                if isinstance(broker.role, LeaderState):
                    self._do(broker, broker.role.step(leading.Ticked(), Instant(self.now)))
                broker.log.kept += self._random.randrange(len(broker.log.entries) - broker.log.kept + 1)
                broker.noted_high_watermark = min(broker.high_watermark, broker.log.end_offset)
                self._arm(broker, life)

        self._at(25 + self._random.randrange(25), tick)

    def _produce(self) -> None:
        for broker in self.brokers.values():
            role = broker.role
            if broker.is_up and isinstance(role, LeaderState) and role.can_take_all:
                assert broker.image is not None
                self._values += 1
                value = b"%d" % self._values
                broker.log.entries.append((broker.image.partition.leader_epoch, value))
                broker.waiting.append((broker.log.end_offset, value))
                self._do(broker, role.step(leading.Appended(broker.log.end_offset), Instant(self.now)))
        self._at(5 + self._random.randrange(40), self._produce)

    def _nemesis(self) -> None:
        chosen = self._random.choice(list(self.brokers.values()))
        if not chosen.is_up:
            self._start(chosen)
        elif self._random.random() < self.crash:
            self._crash(chosen)
        elif self._random.random() < self.stop:
            self._stop(chosen)
        if self._random.random() < self.cut:
            if self.cuts:
                self.cuts.clear()
            else:
                others = [0, *(one for one in self.brokers if one != chosen.id)]
                for other in others:
                    if self._random.random() < 0.6:
                        self.cuts.add((chosen.id, other))
                    if self._random.random() < 0.6:
                        self.cuts.add((other, chosen.id))
                if (chosen.id, 0) in self.cuts:
                    self._at(3 * REQUEST_TIMEOUT_MS, lambda: self._miss(chosen))
        self._at(20 + self._random.randrange(self.pause_ms), self._nemesis)

    def _miss(self, broker: Broker) -> None:
        """The controller has not heard from it for a session."""
        if (broker.id, 0) in self.cuts:
            self._fence(broker.id)
            self._come_back(broker)

    def _come_back(self, broker: Broker) -> None:
        life = broker.life

        def heartbeat() -> None:
            if broker.life == life and broker.is_up:
                if (broker.id, 0) in self.cuts:
                    self._at(REQUEST_TIMEOUT_MS, heartbeat)
                else:
                    self._unfence(broker.id, broker.epoch)

        self._at(REQUEST_TIMEOUT_MS, heartbeat)

    def _crash(self, broker: Broker) -> None:
        """The process ends; and the power goes, if no other copy is at risk."""
        others = self.weak - {broker.id}
        if len(others) >= LEAST_IN_SYNC - 1:
            return
        self.weak.add(broker.id)
        self._down(broker)
        broker.stopped_cleanly = False
        if self._random.random() < 0.6:
            kept = broker.log.kept + self._random.randrange(len(broker.log.entries) - broker.log.kept + 1)
            broker.log.truncate(Offset(kept))
        broker.noted_high_watermark = min(broker.noted_high_watermark, broker.log.end_offset)
        self._at(self._delay(), lambda: self._fence(broker.id) if not broker.is_up else None)

    def _stop(self, broker: Broker) -> None:
        """Controlled: the controller moves what it leads, then it ends with all on disk."""
        self._fence(broker.id)
        self._down(broker)
        broker.stopped_cleanly = True
        broker.log.kept = len(broker.log.entries)

    def _down(self, broker: Broker) -> None:
        broker.is_up = False
        broker.life += 1
        broker.role = None
        broker.image = None
        broker.waiting.clear()
        broker.fetch_under_way = False

    def _start(self, broker: Broker) -> None:
        broker.is_up = True
        broker.life += 1
        broker.epoch = self._register(broker.id, clean=broker.stopped_cleanly)
        broker.stopped_cleanly = False
        epoch = broker.epoch
        self._publish_to(broker, self.image)
        self._later(broker, lambda: self._unfence(broker.id, epoch))
        self._arm(broker, broker.life)

    def _heal(self) -> None:
        self.loss = self.crash = self.stop = self.cut = self.moment = 0
        self.delay_ms = 5
        self.cuts.clear()
        for broker in self.brokers.values():
            if not broker.is_up:
                self._start(broker)
            elif broker.id not in self.image.active:
                self._come_back(broker)

    # --- what must hold

    def _check_leader(self, leader: Broker) -> None:
        """Whoever begins to lead has all that was ever acknowledged."""
        entries = leader.log.entries
        for offset, entry in self.acknowledged.items():
            if offset >= len(entries) or entries[offset] != entry:
                raise Violation(f"offset {offset} was acknowledged as {entry}; leader {leader.id} lacks it")

    def _check_partition(self, partition: PartitionImage) -> None:
        if set(partition.isr) & set(partition.eligible_leaders):
            raise Violation(f"in sync and eligible at once: {partition}")
        if partition.leader != NO_LEADER and partition.leader not in partition.isr:
            raise Violation(f"a leader that is not in sync: {partition}")
