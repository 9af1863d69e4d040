"""A client library that writes and reads a topic of its own while brokers come and go, and its history."""

import time
from collections.abc import Sequence
from dataclasses import replace

from everlog import Admin
from everlog.chaos.members import read_all
from everlog.chaos.notes import TICKS_PER_MS, Notes, RunClock
from everlog.sim.history import (
    History,
    Kind,
    Membership,
    Operation,
    Outcome,
    Polled,
    Promises,
    Recorder,
    Sent,
)
from tests.conformance.clients.sessions import Seen, Sessions, Terms, Way
from tests.conformance.clients.streams import Acked, Failed, Stream

_FINAL_S = 60.0


class Subject:
    """One driver process with a stream of records and a group of one member that reads it."""

    def __init__(self, sessions: Sessions, topic: str, partitions: int, rate: float, way: Way) -> None:
        self.name = sessions.name
        self.topic = topic
        self.trouble: list[str] = []
        """What it did not do in time."""
        self._partitions = [f"{topic}-{index}" for index in range(partitions)]
        terms = Terms(f"group-{topic}", (topic,), protocol=way, session_ms=20_000, heartbeat_ms=1_000)
        promises = Promises(ticks_per_ms=TICKS_PER_MS, at_least_once=(terms.group,))
        self._notes = Notes(RunClock(), Recorder(promises))
        self._began_us = _now_us() - self._notes.clock.ticks()
        self._looked = self._notes.clock.ticks()
        self._noted = 0
        self._events = 0
        self._last: list[dict[int, int]] = [{}, {}]
        """By partition, when the newest record was sent that was written, and that was read."""
        self._sent_us: dict[str, int] = {}
        self._sessions = sessions
        self._membership = Membership(terms.group, "member")
        self._note(Kind.SUBSCRIBE, ())
        self.member = sessions.member(terms)
        self.stream = Stream(sessions, topic, partitions, rate)

    @property
    def history(self) -> History:
        """All that it did so far."""
        return self._notes.recorder.history()

    @property
    def failed(self) -> list[Failed]:
        """The records that its library gave up."""
        return self.stream.failed

    @property
    def read(self) -> set[str]:
        """The values that the member got."""
        return {seen.value for seen in self.member.records}

    def look(self) -> None:
        """Take over what happened since the last look."""
        self.stream.look()
        self._note_sends(self.stream.acked[len(self._sent_us) :])
        self.member.look()
        self._note_polls(self.member.records[self._noted :])

    def goes_on_since(self, moment_us: int) -> bool:
        """Whether it has written, and read, to and from every partition what it sent after a moment."""
        return all(
            last.get(index, 0) > moment_us for last in self._last for index in range(len(self._partitions))
        )

    def has_read_all(self) -> bool:
        """Whether the member has got all that was acknowledged."""
        return self._sent_us.keys() <= self.read

    def end(self, bootstrap: str) -> None:
        """Close both, then read everything with another client, and what the group has committed."""
        self.member.close()
        self._sessions.kill()
        for each in self.stream.failed:
            self._notes.recorder.add(
                replace(self._send(each.partition, each.value, None, each.sent_us), outcome=Outcome.INFO)
            )
        read_all(bootstrap, self.topic, len(self._partitions), self._notes, _FINAL_S)
        with Admin(bootstrap) as admin:
            start = self._notes.clock.ticks()
            found = admin.list_group_offsets(self._membership.group)
        offsets = {f"{place.topic}-{place.partition}": each.offset for place, each in found.items()}
        self._notes.recorder.add(
            Operation(
                "final",
                Kind.COMMITTED,
                Outcome.OK,
                start,
                self._notes.clock.ticks(),
                membership=self._membership,
                offsets=offsets,
                final=True,
            )
        )

    def _note_sends(self, told: Sequence[Acked]) -> None:
        for each in told:
            self._sent_us[each.value] = each.sent_us
            self._move(0, each.partition, each.sent_us)
            self._notes.recorder.add(
                replace(
                    self._send(each.partition, each.value, each.offset, each.sent_us),
                    end=each.told_us - self._began_us,
                )
            )

    def _send(self, partition: int, value: str, offset: int | None, sent_us: int) -> Operation:
        where = self._partitions[partition]
        sends = (Sent(where, value, offset),)
        return Operation(f"to {where}", Kind.SEND, Outcome.OK, sent_us - self._began_us, sends=sends)

    def _note_polls(self, seen: Sequence[Seen]) -> None:
        self._noted += len(seen)
        for each in seen:
            self._move(1, each.partition, self._sent_us.get(each.value, 0))
        polls = tuple(Polled(self._partitions[each.partition], each.offset, each.value) for each in seen)
        self._note(Kind.POLL, polls)

    def _note(self, kind: Kind, polls: tuple[Polled, ...]) -> None:
        """Note what the member got between the last look and now."""
        events = 0 if kind is Kind.SUBSCRIBE else len(self.member.events)
        moved = tuple(self._partitions) if events > self._events else ()
        self._events = events
        start, self._looked = self._looked, self._notes.clock.ticks()
        self._notes.recorder.add(
            Operation(
                "member",
                kind,
                Outcome.OK,
                start,
                self._looked,
                polls=polls,
                read_committed=True,
                rebalanced=moved,
                membership=self._membership,
            )
        )

    def _move(self, which: int, partition: int, sent_us: int) -> None:
        last = self._last[which]
        last[partition] = max(sent_us, last.get(partition, 0))


def _now_us() -> int:
    return time.time_ns() // 1000
