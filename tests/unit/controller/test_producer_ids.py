"""Producer ids: each given once, over blocks, restarts and failing disks (P4)."""

import errno
from collections.abc import Callable

import pytest

from everlog.controller import Controller
from everlog.controller.brokers import UnfenceBroker
from everlog.controller.producer_ids import (
    BLOCK_SIZE,
    AllocateProducerIds,
    ProducerIdBlock,
    ProducerIdPool,
)
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import ProducerId
from everlog.sim.faults import Fault, Kind
from tests.unit.controller.builders import ME, Machine, outcome, started


def a_pool(controller: Controller) -> ProducerIdPool:
    """A pool that asks this controller, as the broker that it knows by its registration."""

    def allocate(given: Callable[[ProducerIdBlock | Refused | StorageError], None]) -> None:
        epoch = controller.image.brokers[ME].epoch
        controller.submit(AllocateProducerIds(ME, epoch), given)

    return ProducerIdPool(allocate)


def taken(machine: Machine, pool: ProducerIdPool, count: int) -> list[int]:
    ids: list[int] = []
    for _ in range(count):

        def done(reply: ProducerId | Refused | StorageError) -> None:
            assert isinstance(reply, int), reply
            ids.append(reply)

        pool.take(done)
        machine.aside.run_all()
    return ids


def test_ids_are_in_a_row_over_blocks() -> None:
    machine = Machine()
    pool = a_pool(started(machine))

    assert taken(machine, pool, 2500) == list(range(2500))


def test_a_reserved_block_serves_at_once() -> None:
    machine = Machine()
    pool = a_pool(started(machine))
    pool.reserve()
    machine.aside.run_all()
    replies: list[object] = []

    pool.take(replies.append)

    assert replies == [0]


def test_the_next_block_is_there_before_the_last_id_is_gone() -> None:
    machine = Machine()
    pool = a_pool(started(machine))
    taken(machine, pool, BLOCK_SIZE - 1)
    replies: list[object] = []

    for _ in range(3):
        pool.take(replies.append)

    assert replies == [BLOCK_SIZE - 1, BLOCK_SIZE, BLOCK_SIZE + 1], "nobody waited for the disk"


def test_no_id_is_given_twice_over_restarts() -> None:
    machine = Machine()
    first = taken(machine, a_pool(started(machine)), 10)

    second = taken(machine, a_pool(started(machine)), 10)

    assert not set(first) & set(second)


def test_those_who_wait_for_a_block_that_fails_are_told_and_the_next_gets_one() -> None:
    machine = Machine()
    controller = started(machine)
    pool = a_pool(controller)
    machine.files.faults = [Fault(Kind.SYNC, errno.EIO, times=1)]
    replies: list[object] = []

    pool.take(replies.append)
    pool.take(replies.append)
    machine.aside.run_all()

    assert [type(reply) for reply in replies] == [Refused, Refused]
    assert len(taken(machine, pool, 3)) == 3


def test_a_broker_of_another_life_gets_no_block() -> None:
    machine = Machine()
    controller = started(machine)

    with pytest.raises(Refused) as stale:
        outcome(machine, controller, AllocateProducerIds(ME, 0))
    with pytest.raises(Refused) as unknown:
        outcome(machine, controller, UnfenceBroker(ME + 1, 0))  # type: ignore[arg-type]

    assert stale.value.code is ErrorCode.STALE_BROKER_EPOCH
    assert unknown.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
