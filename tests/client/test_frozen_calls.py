"""A broker that is there and says nothing: every call of an Admin and of a producer ends in time.

A call that is new has to be entered here. All of a kind are made at once, so that more take no longer.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib import import_module
from typing import Any

import pytest

from everlog import (
    Admin,
    EverlogError,
    GroupMetadata,
    Producer,
    TimedOut,
    TransactionMisused,
    Unsupported,
    aio,
)
from everlog.admin import (
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
    ActiveProducer,
    ConfigResource,
    QuorumEndpoint,
    QuotaEntity,
    Replica,
    ScramDeletion,
    ScramMechanism,
    ToEarliest,
    TopicPartition,
)
from everlog.client.core.txn.prepared import PreparedTransaction
from everlog.model.ids import Uuid
from tests.client.freezing import (
    API_MS,
    DELIVERY_MS,
    GIVE_UP_S,
    LIMIT_S,
    REQUEST_MS,
    Place,
    calls_of,
    ends,
    frozen,
    vars_of,
)
from tests.client.log_reading import committed_offset
from tests.conformance.target import Target

pa: Any = import_module("pyarrow")

TOO_LATE = pa.table({"value": [b"too late"]})

ENDS: dict[str, Any] = {"default_api_timeout_ms": API_MS, "request_timeout_ms": REQUEST_MS}
# Long enough for many producers at once to get ready on a busy machine.
SENDS: dict[str, Any] = {"max_block_ms": 1000, "request_timeout_ms": 700, "delivery_timeout_ms": 1200}
Ended = tuple[BaseException | None, float]
"""What was raised, and after how many seconds."""
Frozen = Callable[[], Awaitable[None]]
"""Waits for the broker to be frozen."""

NODE, NOBODY, NOWHERE = 1, 99, Uuid(b"nowhere".ljust(16))
ALICE = QuotaEntity(user="alice")
PREPARED = PreparedTransaction("nobody", 7, 0)


def active(place: TopicPartition) -> ActiveProducer:
    return ActiveProducer(place, 7, 0, 0, 0, 0)


# The broker does all of this once it goes on, so it is of things that no other test looks at.
OF_AN_ADMIN: dict[str, Callable[[Any, TopicPartition], object]] = {
    "abort_prepared_transactions": lambda admin, place: admin.abort_prepared_transactions([PREPARED]),
    "abort_transaction": lambda admin, place: admin.abort_transaction(active(place)),
    "add_raft_voter": lambda admin, place: admin.add_raft_voter(
        NOBODY, NOWHERE, [QuorumEndpoint("CONTROLLER", "127.0.0.1", 1)]
    ),
    "alter_client_quotas": lambda admin, place: admin.alter_client_quotas(
        {ALICE: {"request_percentage": 90}}
    ),
    "alter_configs": lambda admin, place: admin.alter_configs(
        {ConfigResource.topic("another"): {"retention.ms": "3600000"}}
    ),
    "alter_group_offsets": lambda admin, place: admin.alter_group_offsets("another", {place: 1}),
    "alter_partition_reassignments": lambda admin, place: admin.alter_partition_reassignments({place: None}),
    "alter_replica_log_dirs": lambda admin, place: admin.alter_replica_log_dirs(
        {Replica(place, NODE): "/nowhere"}
    ),
    "alter_scram_users": lambda admin, place: admin.alter_scram_users(
        [ScramDeletion("alice", ScramMechanism.SCRAM_SHA_256)]
    ),
    "commit_prepared_transactions": lambda admin, place: admin.commit_prepared_transactions([PREPARED]),
    "create_acls": lambda admin, place: admin.create_acls(
        [Acl(AclResourceType.TOPIC, "another", "User:alice", AclOperation.READ)]
    ),
    "create_partitions": lambda admin, place: admin.create_partitions({"another": 2}),
    "create_topic": lambda admin, place: admin.create_topic("late"),
    "create_topics": lambda admin, place: admin.create_topics(["later"]),
    "delete_acls": lambda admin, place: admin.delete_acls([AclFilter(name="another")]),
    "delete_group_offsets": lambda admin, place: admin.delete_group_offsets("another", [place]),
    "delete_groups": lambda admin, place: admin.delete_groups(["another"]),
    "delete_records": lambda admin, place: admin.delete_records({place: 0}),
    "delete_topics": lambda admin, place: admin.delete_topics(["another"]),
    "describe_acls": lambda admin, place: admin.describe_acls(),
    "describe_client_quotas": lambda admin, place: admin.describe_client_quotas(),
    "describe_cluster": lambda admin, place: admin.describe_cluster(),
    "describe_configs": lambda admin, place: admin.describe_configs([ConfigResource.topic(place.topic)]),
    "describe_features": lambda admin, place: admin.describe_features(),
    "describe_group": lambda admin, place: admin.describe_group("another"),
    "describe_groups": lambda admin, place: admin.describe_groups(["another"]),
    "describe_log_dirs": lambda admin, place: admin.describe_log_dirs(),
    "describe_producers": lambda admin, place: admin.describe_producers([place]),
    "describe_quorum": lambda admin, place: admin.describe_quorum(),
    "describe_scram_users": lambda admin, place: admin.describe_scram_users(),
    "describe_topics": lambda admin, place: admin.describe_topics([place.topic]),
    "describe_transaction": lambda admin, place: admin.describe_transaction("nobody"),
    "describe_transactions": lambda admin, place: admin.describe_transactions(["nobody"]),
    "elect_leaders": lambda admin, place: admin.elect_leaders([place]),
    "fence_producer": lambda admin, place: admin.fence_producer("nobody"),
    "find_hanging_transactions": lambda admin, place: admin.find_hanging_transactions([active(place)], 1),
    "group_lag": lambda admin, place: admin.group_lag("another"),
    "hold_prepared_transactions": lambda admin, place: admin.hold_prepared_transactions([PREPARED]),
    "list_config_resources": lambda admin, place: admin.list_config_resources(),
    "list_group_offsets": lambda admin, place: admin.list_group_offsets("another"),
    "list_groups": lambda admin, place: admin.list_groups(),
    "list_offsets": lambda admin, place: admin.list_offsets([place]),
    "list_partition_reassignments": lambda admin, place: admin.list_partition_reassignments(),
    "list_topics": lambda admin, place: admin.list_topics(),
    "list_transactions": lambda admin, place: admin.list_transactions(),
    "remove_group_members": lambda admin, place: admin.remove_group_members("another"),
    "remove_raft_voter": lambda admin, place: admin.remove_raft_voter(NOBODY, NOWHERE),
    "reset_group_offsets": lambda admin, place: admin.reset_group_offsets(
        "another", ToEarliest(), {place.topic: None}
    ),
    "unregister_broker": lambda admin, place: admin.unregister_broker(NOBODY),
    "update_features": lambda admin, place: admin.update_features({"transaction.version": 2}),
    "wait_for_topics": lambda admin, place: admin.wait_for_topics(["another"]),
}


@pytest.mark.parametrize("kind", [Admin, aio.Admin])
def test_every_call_of_an_admin_has_its_entry(kind: type) -> None:
    assert calls_of(kind) == set(OF_AN_ADMIN)


def test_every_call_of_an_admin_ends_in_its_time(sleeper: Target, place: Place) -> None:
    at = TopicPartition(*place)
    with Admin(sleeper.bootstrap, **ENDS) as admin, ThreadPoolExecutor(len(OF_AN_ADMIN)) as threads:
        admin.wait_for_topics([at.topic], GIVE_UP_S)

        def timed(name: str) -> Ended:
            began = time.monotonic()
            try:
                OF_AN_ADMIN[name](admin, at)
            except Exception as error:  # noqa: BLE001 - it is looked at
                return error, time.monotonic() - began
            return None, time.monotonic() - began

        with frozen(sleeper):
            running = {name: threads.submit(timed, name) for name in OF_AN_ADMIN}
            ended = {name: call.result(GIVE_UP_S) for name, call in running.items()}
            began = time.monotonic()
            admin.close()
            ended["close"] = TimedOut(), time.monotonic() - began
    assert wrong_ends(ended) == {}


def test_every_call_of_an_admin_on_a_loop_ends_in_its_time(sleeper: Target, place: Place) -> None:
    at = TopicPartition(*place)

    async def one(name: str, frozen: Frozen) -> Ended:
        # One each, which knows the broker and no coordinator yet.
        async with aio.Admin(sleeper.bootstrap, **ENDS) as admin:
            await admin.wait_for_topics([at.topic], GIVE_UP_S)
            await frozen()
            outcome: Any = OF_AN_ADMIN[name](admin, at)
            return await timed_on_loop(outcome)

    assert wrong_ends(all_at_once(sleeper, OF_AN_ADMIN, one)) == {}


def all_at_once(
    target: Target, names: Collection[str], one: Callable[[str, Frozen], Coroutine[Any, Any, Ended]]
) -> dict[str, Ended]:
    """Do something for each of these names; the broker is frozen once all of them wait for that."""

    async def work() -> dict[str, Ended]:
        barrier = asyncio.Barrier(len(names))

        async def frozen() -> None:
            if await barrier.wait() == 0:
                target.pause()
            await barrier.wait()

        async with asyncio.timeout(GIVE_UP_S), asyncio.TaskGroup() as tasks:
            running = {name: tasks.create_task(one(name, frozen)) for name in names}
        return {name: call.result() for name, call in running.items()}

    try:
        return asyncio.run(work())
    finally:
        target.resume()


async def timed_on_loop(call: Awaitable[object]) -> Ended:
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        async with asyncio.timeout(GIVE_UP_S):
            await call
    except Exception as error:  # noqa: BLE001 - it is looked at
        return error, loop.time() - began
    return None, loop.time() - began


def wrong_ends(ended: dict[str, Ended]) -> dict[str, str]:
    """The calls that took too long, or ended in another way than by an error that a retry may help."""
    return {
        name: f"{took:.1f} s: {error!r}"
        for name, (error, took) in ended.items()
        if took >= LIMIT_S or not (isinstance(error, Unsupported) or is_retriable(error))
    }


def is_retriable(error: BaseException | None) -> bool:
    return isinstance(error, EverlogError) and error.retriable


# Producers on a loop, and in a transaction on either face, with a record that is not delivered yet.

Call = Callable[[aio.Producer, Place], Coroutine[Any, Any, object]]
GROUP = GroupMetadata("copiers")


async def send(producer: aio.Producer, place: Place) -> None:
    await (await producer.send(place[0], b"too late", partition=0))


async def send_arrow(producer: aio.Producer, place: Place) -> None:
    await (await producer.send_arrow(place[0], TOO_LATE))


FAILS = True
OF_A_PRODUCER: dict[str, tuple[Call, bool]] = {
    "send": (send, FAILS),
    "send to another": (lambda producer, place: producer.send("another", b"x"), FAILS),
    "send_arrow": (send_arrow, FAILS),
    "open_topic": (lambda producer, place: producer.open_topic("another"), FAILS),
    "partitions_for": (lambda producer, place: producer.partitions_for(place[0]), FAILS),
    # Over once it is known what became of everything.
    "flush": (lambda producer, place: producer.flush(), not FAILS),
    "close": (lambda producer, place: producer.close(), not FAILS),
}
OF_A_TRANSACTION: dict[str, tuple[Call, bool]] = {
    "abort_transaction": (lambda producer, place: producer.abort_transaction(), FAILS),
    "commit_transaction": (lambda producer, place: producer.commit_transaction(), FAILS),
    "prepare_transaction": (lambda producer, place: producer.prepare_transaction(), FAILS),
    "send_offsets_to_transaction": (
        lambda producer, place: producer.send_offsets_to_transaction({place: 1}, GROUP),
        FAILS,
    ),
    "close in a transaction": (lambda producer, place: producer.close(), not FAILS),
}
BEFORE_A_TRANSACTION: dict[str, tuple[Call, bool]] = {
    "init_transactions": (lambda producer, place: producer.init_transactions(), FAILS),
    # Nothing is asked of anybody, unless an epoch is needed.
    "begin_transaction": (lambda producer, place: producer.begin_transaction(), not FAILS),
}


def test_every_call_of_a_producer_on_a_loop_has_its_entry() -> None:
    calls = {name for name, it in vars_of(aio.Producer).items() if inspect.iscoroutinefunction(it)}
    assert calls <= OF_A_PRODUCER.keys() | OF_A_TRANSACTION.keys() | BEFORE_A_TRANSACTION.keys()


async def known(producer: aio.Producer, place: Place) -> None:
    """Have the producer know the topic, however long that takes."""
    while True:
        try:
            await producer.partitions_for(place[0])
        except TimedOut:
            continue
        return


def test_every_call_of_a_producer_on_a_loop_ends_in_its_time(sleeper: Target, place: Place) -> None:
    calls = OF_A_PRODUCER | OF_A_TRANSACTION | BEFORE_A_TRANSACTION

    async def one(name: str, frozen: Frozen) -> Ended:
        call, _ = calls[name]
        options: dict[str, Any] = (
            {} if name in OF_A_PRODUCER else {"transactional_id": f"frozen-{list(calls).index(name)}"}
        )
        producer = aio.Producer(sleeper.bootstrap, **SENDS, **options)
        await known(producer, place)
        if name in OF_A_TRANSACTION or name == "begin_transaction":
            await producer.init_transactions(GIVE_UP_S)
        if name in OF_A_TRANSACTION:
            await producer.begin_transaction()
        if name not in BEFORE_A_TRANSACTION:
            await (await producer.send(place[0], b"acknowledged", partition=0))
        await frozen()
        if name not in BEFORE_A_TRANSACTION:
            await producer.send(place[0], b"too late", partition=0)
        ended = await timed_on_loop(call(producer, place))
        await producer.close()
        return ended

    ended = all_at_once(sleeper, calls, one)
    for name, (error, took) in ended.items():
        assert took < LIMIT_S, (name, took)
        assert (error is not None) is calls[name][1], (name, error)
        assert error is None or isinstance(error, EverlogError), (name, error)


# Blocking producers, one after the other as their calls differ in what they leave to wait for.

ASKS_NOBODY = {"metrics"}
OF_SEVERAL_CALLS = {"transaction"}


def test_every_call_of_a_blocking_producer_has_its_entry() -> None:
    entered = {
        name.split()[0] for name in (*OF_A_BLOCKING_PRODUCER, *OF_A_TRANSACTION, *BEFORE_A_TRANSACTION)
    }
    assert calls_of(Producer) == (entered | ASKS_NOBODY | OF_SEVERAL_CALLS) - {"close"}


OF_A_BLOCKING_PRODUCER: dict[str, tuple[Callable[[Producer, Place], object], bool]] = {
    "partitions_for": (lambda producer, place: producer.partitions_for(place[0]), FAILS),
    "partitions_for another": (lambda producer, place: producer.partitions_for("another"), FAILS),
    "send to another": (lambda producer, place: producer.send("another", b"x"), FAILS),
    "send_arrow to another": (
        lambda producer, place: producer.send_arrow("another", TOO_LATE),
        FAILS,
    ),
    "send_arrow": (
        lambda producer, place: producer.send_arrow(place[0], TOO_LATE).exception(),
        not FAILS,
    ),
    "flush": (lambda producer, place: producer.flush(), not FAILS),
    "close": (lambda producer, place: producer.close(), not FAILS),
}


@pytest.mark.parametrize("name", OF_A_BLOCKING_PRODUCER)
def test_a_call_of_a_blocking_producer_ends_in_its_time(sleeper: Target, place: Place, name: str) -> None:
    call, fails = OF_A_BLOCKING_PRODUCER[name]
    with Producer(
        sleeper.bootstrap, request_timeout_ms=REQUEST_MS, delivery_timeout_ms=DELIVERY_MS, max_block_ms=API_MS
    ) as producer:
        producer.send(place[0], b"acknowledged", partition=0).result(GIVE_UP_S)

        def work() -> None:
            delivery = producer.send(place[0], b"too late", partition=0)
            call(producer, place)
            # Flushing and closing are over once it is known what became of everything.
            assert fails or isinstance(delivery.exception(0), EverlogError)

        assert (ends(sleeper, work) is not None) is fails


def test_every_call_of_a_blocking_producer_in_a_transaction_ends_in_its_time(
    sleeper: Target, place: Place
) -> None:
    calls: dict[str, tuple[Any, bool]] = {**OF_A_TRANSACTION, **BEFORE_A_TRANSACTION}
    with ExitStack() as stack, ThreadPoolExecutor(len(calls)) as threads:
        producers = {
            name: stack.enter_context(
                Producer(sleeper.bootstrap, transactional_id=f"stuck-{number}", **SENDS)
            )
            for number, name in enumerate(calls)
        }
        for name, producer in producers.items():
            if name != "init_transactions":
                producer.init_transactions(GIVE_UP_S)
            if name in OF_A_TRANSACTION:
                producer.begin_transaction()
                producer.send(place[0], b"acknowledged", partition=0).result(GIVE_UP_S)

        def timed(name: str) -> Ended:
            producer, (call, _) = producers[name], calls[name]
            if name in OF_A_TRANSACTION:
                producer.send(place[0], b"too late", partition=0)
            began = time.monotonic()
            try:
                call(producer, place)
            except Exception as error:  # noqa: BLE001 - it is looked at
                return error, time.monotonic() - began
            return None, time.monotonic() - began

        with frozen(sleeper):
            running = {name: threads.submit(timed, name) for name in calls}
            ended = {name: call.result(GIVE_UP_S) for name, call in running.items()}
    for name, (error, took) in ended.items():
        assert took < LIMIT_S, (name, took)
        assert (error is not None) is calls[name][1], (name, error)
        assert error is None or isinstance(error, EverlogError), (name, error)


def test_progress_that_was_sent_to_a_frozen_broker_is_not_committed_without(
    sleeper: Target, place: Place
) -> None:
    group = GroupMetadata(f"group-{time.monotonic_ns()}")
    with Producer(sleeper.bootstrap, transactional_id="frozen", **SENDS) as producer:
        producer.init_transactions(GIVE_UP_S)
        producer.begin_transaction()
        producer.send(place[0], b"made of it").result(GIVE_UP_S)
        with frozen(sleeper):
            with pytest.raises(TimedOut):
                producer.send_offsets_to_transaction({place: 7}, group)
            with pytest.raises(TransactionMisused):
                producer.prepare_transaction()
        with pytest.raises(TransactionMisused, match="call it again with the same offsets"):
            producer.commit_transaction(GIVE_UP_S)
        producer.send_offsets_to_transaction({place: 7}, group, GIVE_UP_S)
        producer.commit_transaction(GIVE_UP_S)

    assert committed_offset(sleeper.bootstrap, group.group_id, *place) == 7
