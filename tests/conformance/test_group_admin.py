"""Rows C2, C7, O1: groups as admin clients list, describe, reset and delete them."""

from collections.abc import Callable

import pytest

from tests.conformance.clients.face import ClientError
from tests.conformance.clients.sessions import NAMES, Sessions, Way, able
from tests.conformance.conftest import Drive
from tests.conformance.crowd import Crowd, until

pytestmark = pytest.mark.conformance

UNKNOWN_MEMBER_ID = 25
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
GROUP_SUBSCRIBED_TO_TOPIC = 86
WAYS: tuple[Way, ...] = ("eager", "consumer")
TYPES = {"eager": "classic", "consumer": "consumer"}
# These know the newer protocol's API of describing; the others ask by the older one, which does not show it.
BOTH_KINDS = ("confluent-kafka", "kafka-clients", "franz-go")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_a_group_is_listed_and_described(name: str, way: Way, crowd: Crowd, drive: Drive) -> None:
    if way == "consumer" and name not in BOTH_KINDS:
        pytest.skip(f"{name} cannot describe groups of the newer protocol")
    for _ in range(2):
        crowd.add(drive("kafka-clients").member(crowd.terms(protocol=way)))
    crowd.wait_shared()
    group = crowd.terms().group
    admin = drive(name)

    until(lambda: admin.call("describe_group", group=group)["state"] == "Stable", 40.0, lambda: group)
    described = admin.call("describe_group", group=group)
    shares: list[list[list[object]]] = [member["partitions"] for member in described["members"]]
    owned = [sorted(map(list, member.assignment)) for member in crowd.members]
    assert sorted(map(sorted, shares)) == sorted(owned)
    (listed,) = (each for each in admin.call("list_groups") if each[0] == group)
    # Some clients tell of a listed group its name alone.
    assert listed[1:] in ([TYPES[way], "Stable"], ["", ""]), listed

    crowd.close()
    until(lambda: admin.call("describe_group", group=group)["state"] == "Empty", 40.0, lambda: group)


@pytest.mark.parametrize("name", able("change_groups"))
def test_a_group_with_members_is_neither_deleted_nor_reset(name: str, crowd: Crowd, drive: Drive) -> None:
    crowd.add(drive("kafka-clients").member(crowd.terms()))
    crowd.wait_shared()
    group = crowd.terms().group

    assert _code(lambda: drive(name).call("delete_group", group=group)) == NON_EMPTY_GROUP
    offsets = [[crowd.topic, 0, 0]]
    if name != "kafkajs":  # It looks at the group's state itself and does not ask.
        refused = _code(lambda: drive(name).call("alter_offsets", group=group, offsets=offsets))
        assert refused == UNKNOWN_MEMBER_ID
    crowd.close()


@pytest.mark.parametrize("name", able("change_groups"))
def test_offsets_of_an_empty_group_are_set_and_the_group_deleted(
    name: str, crowd: Crowd, drive: Drive
) -> None:
    crowd.add(drive("kafka-clients").member(crowd.terms()))
    crowd.wait_read(crowd.write(5))
    crowd.close()
    group = crowd.terms().group
    admin = drive(name)

    admin.call("alter_offsets", group=group, offsets=[[crowd.topic, 0, 2], [crowd.topic, 1, 4]])

    offsets = admin.group_offsets(group)
    assert offsets[crowd.topic, 0].offset == 2
    assert offsets[crowd.topic, 1].offset == 4
    admin.call("delete_group", group=group)
    assert drive("kafka-clients").group_offsets(group) == {}
    assert group not in [each[0] for each in admin.call("list_groups")]
    assert _code(lambda: admin.call("delete_group", group=group)) == GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("name", able("delete_offsets"))
def test_an_offset_is_deleted_unless_the_group_reads_its_topic(name: str, crowd: Crowd, drive: Drive) -> None:
    crowd.add(drive("kafka-clients").member(crowd.terms()))
    crowd.wait_read(crowd.write(5))
    group = crowd.terms().group

    assert _deletion(drive(name), crowd) == GROUP_SUBSCRIBED_TO_TOPIC
    crowd.close()
    assert _deletion(drive(name), crowd) == 0
    assert sorted(drive(name).group_offsets(group)) == sorted(crowd.all_partitions - {(crowd.topic, 0)})


def _deletion(admin: Sessions, crowd: Crowd) -> int:
    return _code(
        lambda: admin.call("delete_offsets", group=crowd.terms().group, topic=crowd.topic, partition=0)
    )


def _code(action: Callable[[], object]) -> int:
    try:
        action()
    except ClientError as error:
        return error.code
    return 0
