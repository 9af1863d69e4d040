"""Everlog's assignors beside Apache Kafka's own, on the same groups (C3).

It matters not which client leads a group. What is fully determined agrees to the partition. Of the sticky
ones there is more than one right answer: shares are as even, and no more moves than with Kafka's.
"""

import base64
import json
import random
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from everlog.client.core.group.assignors import AssignedMember, Layout, RebalanceProtocol, hold_back_moving
from everlog.client.core.group.assignors.sticky import write_had
from everlog.client.core.group.assignors.table import ASSIGNORS
from everlog.model.topics import TopicPartition
from tests.apache_kafka import Unavailable
from tests.conformance.clients.other_languages import java_command

Members = Mapping[str, AssignedMember]
Given = dict[str, list[TopicPartition]]
GROUPS = 400
RACKS = ("a", "b", "c")


class KafkaAssignors:
    """A Java process with Kafka's assignors."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            [*command[:-1], "Assignors"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def assign(self, name: str, members: Members, topics: Layout) -> Given:
        """What Kafka's assignor of this name does."""
        group = {
            "assignor": name,
            "topics": {topic: [sorted(each) for each in racks] for topic, racks in topics.items()},
            "members": {
                member_id: {
                    "topics": sorted(member.topics),
                    "owned": sorted(member.owned),
                    "generation": member.generation,
                    "instance": member.instance_id,
                    "rack": member.rack,
                    "user_data": base64.b64encode(member.user_data).decode(),
                }
                for member_id, member in members.items()
            },
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(group) + "\n")
        self._process.stdin.flush()
        answer: dict[str, list[list[Any]]] = json.loads(self._process.stdout.readline())
        return {
            member_id: sorted(
                TopicPartition(topic, partition) for topic, partition in answer.get(member_id, [])
            )
            for member_id in members
        }

    def stop(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaAssignors]:
    command = java_command()
    if isinstance(command, Unavailable):
        pytest.skip(command.reason)
    assignors = KafkaAssignors(command)
    yield assignors
    assignors.stop()


def ours(name: str, members: Members, topics: Layout) -> Given:
    """What our assignor of this name and the leader make of it."""
    assignor = ASSIGNORS[name]
    shares = assignor.assign(members, topics)
    if RebalanceProtocol.COOPERATIVE in assignor.protocols:
        return hold_back_moving(members, shares)
    return {member_id: sorted(shares.get(member_id, ())) for member_id in members}


def a_layout(chance: random.Random, *, racks: bool) -> Layout:
    names = [f"t{index}" for index in range(chance.randint(1, 4))]
    sizes = [chance.randint(1, 9), chance.randint(0, 9)]
    return {
        name: [
            frozenset(chance.sample(RACKS, chance.randint(1, 3))) if racks else frozenset[str]()
            for _ in range(chance.choice(sizes))
        ]
        for name in names
    }


def a_group(chance: random.Random, topics: Layout, *, alike: bool = False, racks: bool = False) -> Members:
    names = sorted(topics)
    same = frozenset(chance.sample(names, chance.randint(1, len(names))))
    return {
        f"m{chance.randint(0, 99)}-{index}": AssignedMember(
            same
            if alike or chance.random() < 0.5
            else frozenset(chance.sample(names, chance.randint(1, len(names)))),
            instance_id=f"i{chance.randint(0, 99)}-{index}" if chance.random() < 0.3 else None,
            rack=chance.choice([*RACKS, None]) if racks else None,
        )
        for index in range(chance.randint(1, 6))
    }


@pytest.mark.parametrize("racks", [False, True])
@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_range_and_round_robin_agree_to_the_partition(kafka: KafkaAssignors, name: str, racks: bool) -> None:
    chance = random.Random(f"{name} {racks}")
    for _ in range(GROUPS):
        topics = a_layout(chance, racks=racks)
        members = a_group(chance, topics, racks=racks, alike=chance.random() < 0.5)

        assert ours(name, members, topics) == kafka.assign(name, members, topics), (members, topics)


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@pytest.mark.parametrize("alike", [True, False])
def test_the_sticky_ones_are_as_even_and_move_no_more(kafka: KafkaAssignors, name: str, alike: bool) -> None:
    chance = random.Random(f"{name} {alike}")
    for _ in range(GROUPS):
        topics = a_layout(chance, racks=False)
        members = a_group(chance, topics, alike=alike)
        first = kafka.assign("roundrobin", members, topics)
        after = changed(chance, name, members, first, alike=alike)

        mine, theirs = ours(name, after, topics), kafka.assign(name, after, topics)

        if name == "sticky":
            assert unevenness(mine) <= unevenness(theirs), (after, topics, mine, theirs)
            check_all_given(mine, after, topics)
        if alike:
            assert moved(mine, first) <= moved(theirs, first), (after, topics, mine, theirs)
            assert sorted(map(len, mine.values())) == sorted(map(len, theirs.values())), (after, topics)


def changed(chance: random.Random, name: str, members: Members, had: Given, *, alike: bool) -> Members:
    """The group after some have gone and one has come."""
    left = [member_id for member_id in members if chance.random() < 0.7] or [next(iter(members))]
    after = {
        member_id: AssignedMember(
            members[member_id].topics,
            frozenset(had[member_id]) if name == "cooperative-sticky" else frozenset(),
            3,
            members[member_id].instance_id,
            user_data=write_had(had[member_id], 3) if name == "sticky" else b"",
        )
        for member_id in left
    }
    if chance.random() < 0.7:
        after["new"] = AssignedMember(members[left[0]].topics)
    return after


def unevenness(shares: Given) -> int:
    return sum(len(share) ** 2 for share in shares.values())


def moved(shares: Given, had: Given) -> int:
    return sum(len(set(share) - set(had.get(member_id, ()))) for member_id, share in shares.items())


def check_all_given(shares: Given, members: Members, topics: Layout) -> None:
    given = [place for share in shares.values() for place in share]
    wanted = {
        TopicPartition(topic, index)
        for topic, racks in topics.items()
        if any(topic in member.topics for member in members.values())
        for index in range(len(racks))
    }
    assert len(given) == len(set(given))
    assert set(given) == wanted
