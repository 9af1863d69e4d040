"""Rows C2, C3, C4: groups of the classic protocol, formed by unmodified clients."""

import pytest

from tests.conformance.clients.sessions import Commit, Way, able
from tests.conformance.conftest import Drive
from tests.conformance.crowd import Crowd, until
from tests.conformance.membership import play_bounce, play_membership

pytestmark = pytest.mark.conformance

EAGER: list[tuple[str, Way]] = [(name, "eager") for name in able("eager")]
COOPERATIVE: list[tuple[str, Way]] = [(name, "cooperative") for name in able("cooperative")]
FENCED_INSTANCE_ID = 82
FATAL = -150  # librdkafka's word for "this client is of no more use".


@pytest.mark.parametrize(("name", "way"), EAGER + COOPERATIVE)
def test_a_group_shares_its_partitions_while_members_come_go_and_die(
    name: str, way: Way, crowd: Crowd, drive: Drive, victim: Drive
) -> None:
    play_membership(crowd, drive(name), victim(name), crowd.terms(protocol=way))


@pytest.mark.parametrize("name", able("static"))
def test_a_static_member_that_is_back_in_time_disturbs_nobody(name: str, crowd: Crowd, drive: Drive) -> None:
    play_bounce(crowd, drive(name), "eager")


@pytest.mark.parametrize("name", able("stays_fenced"))
def test_a_second_member_of_the_same_instance_fences_the_first(name: str, crowd: Crowd, drive: Drive) -> None:
    sessions = drive(name)
    first = crowd.add(sessions.member(crowd.terms(instance="one")))
    crowd.wait_shared()

    second = sessions.member(crowd.terms(instance="one"))

    def fenced() -> bool:
        first.look()
        return first.error is not None

    until(fenced, 40.0, lambda: (first.assignment, first.events))
    assert first.error is not None
    assert first.error[0] in (FENCED_INSTANCE_ID, FATAL), first.error
    crowd.drop(first)
    crowd.add(second)
    crowd.wait_shared()
    # And the second stays: its commit is refused if the first has taken the place back.
    crowd.write_in_quiet()
    second.commit([Commit(topic, number, end) for (topic, number), end in crowd.ends.items()])
    crowd.look()
    second.close()


def test_members_of_all_clients_share_one_group(crowd: Crowd, drive: Drive) -> None:
    """They have the range assignor in common, and each may come to lead."""
    names = [
        name for name in able("eager") if name != "kafkajs"
    ]  # Its one assignor is called by another name.
    for name in names:
        crowd.add(drive(name).member(crowd.terms()))
    crowd.wait_shared(40.0)
    values = crowd.write(5)
    crowd.wait_read(values)
    crowd.check_read_once(values)
    for member in list(crowd.members):
        member.close()
        crowd.drop(member)
        if crowd.members:
            crowd.wait_shared()
