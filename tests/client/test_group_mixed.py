"""Our consumers in one group with those of other clients, each of whom may lead it (C2, C3)."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any

import pytest

from tests.apache_kafka import Unavailable
from tests.client.conftest import NewTopic
from tests.client.group_members import PATIENCE_S, WAYS, Reader, members, on_a_loop
from tests.client.log_writing import write
from tests.conformance.clients import sessions
from tests.conformance.clients.sessions import Member, Sessions, Terms, Way

Drive = Callable[[str], Sessions]

TERMS: dict[str, Way] = {"range": "eager", "cooperative": "cooperative", "consumer": "consumer"}
CASES = [(name, way) for way in WAYS for name in ("confluent-kafka", "kafka-clients")]


@pytest.fixture(scope="module")
def drive(bootstrap: str) -> Generator[Drive]:
    """Give the driver of the client of a name, started once; skip, with the reason, where there is none."""
    started: dict[str, Sessions | Unavailable] = {}

    def sessions_of(name: str) -> Sessions:
        if name not in started:
            started[name] = sessions.start(name, bootstrap)
        found = started[name]
        if isinstance(found, Unavailable):
            pytest.skip(f"{name}: {found.reason}")
        return found

    yield sessions_of
    for each in started.values():
        if isinstance(each, Sessions):
            each.kill()


async def settle(
    count: int, ours: list[Reader], theirs: list[Member], more: Callable[[], Any] = bool
) -> None:
    """Wait until so many partitions are shared by all, each with one."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        for member in theirs:
            await asyncio.to_thread(member.look)
            assert member.error is None, member.error
        for reader in ours:
            assert reader.error is None, reader.error
        shares = [reader.has for reader in ours]
        shares += [frozenset(partition for _, partition in member.assignment) for member in theirs]
        everything = sorted(partition for share in shares for partition in share)
        even = max(map(len, shares)) - min(map(len, shares)) <= 1
        if everything == list(range(count)) and even and (more is bool or more()):
            return
        assert asyncio.get_running_loop().time() < deadline, shares
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(("name", "way"), CASES)
@on_a_loop
async def test_c3_members_of_different_clients_share_one_group(
    bootstrap: str, new_topic: NewTopic, drive: Drive, name: str, way: str
) -> None:
    topic = new_topic(6)
    session = await asyncio.to_thread(drive, name)
    async with members(bootstrap) as group:
        terms = Terms(group.group, (topic,), protocol=TERMS[way], session_ms=30_000)
        first = await asyncio.to_thread(session.member, terms)
        await settle(6, [], [first])
        # They lead; ours follow.
        ours = [await group.join(topic, **WAYS[way]) for _ in range(2)]
        await settle(6, ours, [first])
        for partition in range(6):
            await asyncio.to_thread(write, bootstrap, topic, [b"%d" % partition], partition=partition)
        await settle(
            6, ours, [first], lambda: sum(len(each.values) for each in ours) + len(first.records) >= 6
        )

        # They go; one of ours leads, and theirs follows.
        await asyncio.to_thread(first.close)
        await settle(6, ours, [])
        second = await asyncio.to_thread(session.member, terms)
        await settle(6, ours, [second])
        await ours.pop().stop()
        await settle(6, ours, [second])

        if way != "range":
            lost = [places for reader in ours for kind, places in reader.events if kind == "lost"]
            assert lost == []
        await asyncio.to_thread(second.close)


@pytest.mark.parametrize("classic", ["range", "cooperative"])
@on_a_loop
async def test_c3_a_group_moves_from_one_protocol_to_the_other_while_it_works(
    bootstrap: str, new_topic: NewTopic, classic: str
) -> None:
    topic = new_topic(4)
    async with members(bootstrap) as group:
        old = [await group.join(topic, **WAYS[classic]) for _ in range(2)]
        await settle(4, old, [])
        new = await group.join(topic, **WAYS["consumer"])
        await settle(4, [*old, new], [])
        await old.pop().stop()
        await settle(4, [*old, new], [])
        await old.pop().stop()
        await settle(4, [new], [])

        # And back.
        last = await group.join(topic, **WAYS[classic])
        await settle(4, [last, new], [])
        await new.stop()
        await settle(4, [last], [])
