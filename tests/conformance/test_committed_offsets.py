"""Row C5: offsets committed by unmodified clients, seen by all others, and after a crash of the broker."""

from collections import Counter
from dataclasses import replace

import pytest

from tests.conformance.clients.sessions import NAMES, Commit, Member, able
from tests.conformance.conftest import Drive
from tests.conformance.crowd import Crowd, until
from tests.conformance.membership import check_all_committed
from tests.conformance.target import Target

pytestmark = pytest.mark.conformance

every_client = pytest.mark.parametrize("name", NAMES)


@every_client
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_an_offset_is_committed_with_its_metadata_and_every_client_sees_it(
    name: str, asynchronous: bool, crowd: Crowd, drive: Drive
) -> None:
    member = crowd.add(drive(name).member(crowd.terms(commit="none")))
    crowd.wait_shared()
    crowd.wait_read(crowd.write(4))
    offsets = [Commit(crowd.topic, 0, 3, "half way ☕"), Commit(crowd.topic, 5, 1, "")]

    member.commit(offsets, asynchronous)

    expected = {(each.topic, each.partition): each for each in offsets}
    for other in ("kafka-python", "aiokafka", "kafka-clients", "franz-go", "kafkajs"):
        found = drive(other).group_offsets(crowd.terms().group)
        # librdkafka's Python binding sends the text with the zero that ends it in memory.
        stripped = {
            where: replace(each, metadata=each.metadata.rstrip("\0")) for where, each in found.items()
        }
        assert stripped == expected, other
    assert member.committed(crowd.topic, range(6)) == {0: 3, 5: 1}
    crowd.close()


@every_client
def test_who_comes_after_goes_on_where_the_commit_was(name: str, crowd: Crowd, drive: Drive) -> None:
    first = drive(name).member(crowd.terms(commit="none"))
    crowd.add(first)
    crowd.wait_shared()
    early = crowd.write(3)
    crowd.wait_read(early)
    first.commit()
    uncommitted = crowd.write(3)
    crowd.wait_read(uncommitted)
    crowd.close()

    second = crowd.add(drive(name).member(crowd.terms(commit="none")))
    crowd.wait_shared()
    late = crowd.write(1)
    crowd.wait_read(late)
    until(lambda: _has_read(second, late + uncommitted), 40.0, lambda: second.records)

    assert Counter(seen.value for seen in second.records) == Counter(late + uncommitted)
    crowd.close()


@every_client
def test_offsets_are_committed_by_the_clients_own_timer(name: str, crowd: Crowd, drive: Drive) -> None:
    crowd.add(drive(name).member(crowd.terms(commit="auto")))
    crowd.wait_shared()
    crowd.wait_read(crowd.write(3))
    check_all_committed(crowd, drive(name))
    crowd.close()


@every_client
def test_a_group_without_offsets_begins_where_it_is_told(name: str, crowd: Crowd, drive: Drive) -> None:
    early = crowd.write(2)
    earliest = drive(name).member(crowd.terms(group=f"e-{crowd.topic}", reset="earliest"))
    latest = drive(name).member(crowd.terms(group=f"l-{crowd.topic}", reset="latest"))
    until(lambda: _has_read(earliest, early), 40.0, lambda: earliest.records)
    until(lambda: _owns(latest, crowd), 40.0, lambda: latest.events)
    # A member has no position until it has asked for the end, which no client tells us of.
    late = crowd.write(2)
    until(lambda: _has_read(earliest, late), 40.0, lambda: earliest.records)
    latest.look()

    assert not {seen.value for seen in latest.records} & set(early)
    earliest.close()
    latest.close()


@pytest.mark.parametrize("name", able("no_reset"))
def test_a_group_without_offsets_may_refuse_to_begin(name: str, crowd: Crowd, drive: Drive) -> None:
    crowd.write(2)
    member = drive(name).member(crowd.terms(reset="none"))

    def refused() -> bool:
        member.look()
        return member.error is not None

    until(refused, 40.0, lambda: (member.events, member.records))
    assert not member.records
    member.close()


def test_groups_and_offsets_survive_a_killed_broker(crowd: Crowd, drive: Drive, target: Target) -> None:
    """Every client has a group of its own; none reads again what it had committed, none misses a record."""
    members = {name: drive(name).member(crowd.terms(group=f"{name}-{crowd.topic}")) for name in NAMES}
    early = crowd.write(4)
    for name, member in members.items():
        _wait_read(name, member, early)
    for name in NAMES:
        _wait_committed(crowd, drive, name)

    target.kill()
    target.start()

    late = crowd.write(4)
    for name, member in members.items():
        _wait_read(name, member, late)
        counts = Counter(seen.value for seen in member.records)
        # What was committed is not read again; what came while the group found itself again may be.
        assert all(counts[value] == 1 for value in early), (name, counts)
    for name in NAMES:
        _wait_committed(crowd, drive, name)
        members[name].close()


def _wait_committed(crowd: Crowd, drive: Drive, name: str) -> None:
    group = f"{name}-{crowd.topic}"

    def committed() -> dict[tuple[str, int], int]:
        found = drive("kafka-clients").group_offsets(group)
        return {where: each.offset for where, each in found.items()}

    until(lambda: committed() == crowd.ends, 40.0, lambda: (name, committed(), crowd.ends))


def _wait_read(name: str, member: Member, values: list[str]) -> None:
    until(lambda: _has_read(member, values), 40.0, lambda: (name, len(member.records), member.events))


def _has_read(member: Member, values: list[str]) -> bool:
    member.look()
    return set(values) <= {seen.value for seen in member.records}


def _owns(member: Member, crowd: Crowd) -> bool:
    member.look()
    return member.assignment == crowd.all_partitions
