"""Row C3: unmodified clients in groups of the newer protocol (KIP-848), and in groups that change over."""

from collections.abc import Callable

import pytest

from tests.conformance import checks
from tests.conformance.clients.face import Client
from tests.conformance.clients.sessions import Member, Sessions, Terms, Way, able
from tests.conformance.conftest import Drive
from tests.conformance.crowd import Crowd, until
from tests.conformance.membership import play_bounce, play_membership
from tests.conformance.target import Target

pytestmark = pytest.mark.conformance

UNRELEASED_INSTANCE_ID = 111
INVALID_REGULAR_EXPRESSION = 128
FATAL = -150  # librdkafka's word for "this client is of no more use".

newer_clients = pytest.mark.parametrize("name", able("consumer_protocol"))


@newer_clients
def test_a_group_shares_its_partitions_while_members_come_go_and_die(
    name: str, crowd: Crowd, drive: Drive, victim: Drive
) -> None:
    play_membership(crowd, drive(name), victim(name), crowd.terms(protocol="consumer"))


@newer_clients
def test_partitions_that_do_not_move_are_not_revoked(name: str, crowd: Crowd, drive: Drive) -> None:
    sessions = drive(name)
    first = crowd.add(sessions.member(crowd.terms(protocol="consumer")))
    crowd.wait_shared()
    before = first.assignment

    crowd.add(sessions.member(crowd.terms(protocol="consumer")))
    crowd.wait_shared()

    assert first.assignment < before
    assert first.events.count("revoked") == 1, first.events
    crowd.close()


@newer_clients
def test_a_static_member_that_is_back_in_time_disturbs_nobody(name: str, crowd: Crowd, drive: Drive) -> None:
    if name == "franz-go":
        pytest.skip("franz-go says that it leaves for a while, but not as which instance")
    play_bounce(crowd, drive(name), "consumer")


@newer_clients
def test_an_instance_that_is_held_is_refused_to_another(name: str, crowd: Crowd, drive: Drive) -> None:
    terms = crowd.terms(protocol="consumer", instance="one")
    crowd.add(drive(name).member(terms))
    crowd.wait_shared()

    second = drive(name).member(terms)

    _wait_failed(second, UNRELEASED_INSTANCE_ID)
    assert not second.assignment
    crowd.write_in_quiet()
    crowd.close()


@newer_clients
def test_a_pattern_takes_in_topics_as_they_come(
    name: str, target: Target, writer: Client, drive: Drive, fresh_topic: Callable[[], str]
) -> None:
    """Apache Kafka looks for new topics of a pattern every ten seconds at most."""
    prefix = fresh_topic()
    for kind in ("orders", "refunds", "other"):
        checks.create_served(target.bootstrap, writer, f"{prefix}-{kind}", 2)
    terms = Terms(group=f"g-{prefix}", pattern=f"{prefix}-(orders|re.*)", protocol="consumer")
    members = [drive(name).member(terms) for _ in range(2)]

    _wait_topics(members, {f"{prefix}-orders", f"{prefix}-refunds"})
    checks.create_served(target.bootstrap, writer, f"{prefix}-returns", 2)
    _wait_topics(members, {f"{prefix}-orders", f"{prefix}-refunds", f"{prefix}-returns"})

    for member in members:
        member.close()


@newer_clients
def test_a_pattern_that_re2_lacks_is_refused(name: str, drive: Drive, fresh_topic: Callable[[], str]) -> None:
    if name == "franz-go":
        pytest.skip("franz-go checks with the same engine and does not ask")
    terms = Terms(group=f"g-{fresh_topic()}", pattern=r"(a)\1", protocol="consumer")

    member = drive(name).member(terms)

    _wait_failed(member, INVALID_REGULAR_EXPRESSION)


@pytest.mark.parametrize("classic", ["eager", "cooperative"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("kafka-clients", "kafka-clients"),
        ("confluent-kafka", "confluent-kafka"),
        ("franz-go", "kafka-clients"),
        ("kafka-python", "confluent-kafka"),
    ],
)
def test_a_group_changes_over_while_it_works_and_back_again(
    before: str, after: str, classic: Way, crowd: Crowd, drive: Drive
) -> None:
    older, newer = crowd.terms(protocol=classic), crowd.terms(protocol="consumer")
    for _ in range(2):
        crowd.add(drive(before).member(older))
    crowd.wait_shared()
    crowd.write_in_quiet()
    _wait_stable(drive, crowd, "classic")

    crowd.add(drive(after).member(newer))
    crowd.write_while_moving()
    crowd.write_in_quiet()
    _wait_stable(drive, crowd, "consumer")

    for member in crowd.members[:2]:
        member.close()
        crowd.drop(member)
        crowd.add(drive(after).member(newer))
        crowd.write_while_moving()
    crowd.write_in_quiet()

    _go_back(crowd, drive(before), older)
    _wait_stable(drive, crowd, "classic")
    crowd.close()


def _go_back(crowd: Crowd, sessions: Sessions, older: Terms) -> None:
    """A classic member joins; with the last of the newer ones gone, the group is classic again."""
    newer = list(crowd.members)
    crowd.add(sessions.member(older))
    crowd.write_while_moving()
    for member in newer:
        member.close()
        crowd.drop(member)
    crowd.write_while_moving()
    crowd.write_in_quiet()


def _wait_stable(drive: Drive, crowd: Crowd, kind: str) -> None:
    admin, group = drive("kafka-clients"), crowd.terms().group

    def listed() -> list[str]:
        (found,) = (each for each in admin.call("list_groups") if each[0] == group)
        seen: list[str] = found[1:]
        return seen

    until(lambda: listed() == [kind, "Stable"], 40.0, listed)


def _wait_failed(member: Member, code: int) -> None:
    def failed() -> bool:
        member.look()
        return member.error is not None

    until(failed, 40.0, lambda: (member.assignment, member.events))
    assert member.error is not None
    assert member.error[0] in (code, FATAL), member.error


def _wait_topics(members: list[Member], topics: set[str]) -> None:
    def owned() -> list[tuple[str, int]]:
        for member in members:
            member.look()
            assert member.error is None, member.error
        return sorted(partition for member in members for partition in member.assignment)

    expected = sorted((topic, number) for topic in topics for number in (0, 1))
    until(lambda: owned() == expected, 40.0, lambda: (owned(), expected))
