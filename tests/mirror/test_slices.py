"""A partition and its mirror on two real clusters, each slice read from one and written to the other."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import pytest

import everlog
from everlog.mirror.groups import move_group, translate_group
from everlog.mirror.mirror import Mirror
from everlog.mirror.notes import last_slice, offset_maps, open_notes
from everlog.mirror.slices import spans_of, write_slice

pa: Any = import_module("pyarrow")
PLACE = everlog.TopicPartition("orders", 1)


@pytest.fixture(scope="module")
def clusters() -> Generator[tuple[str, str]]:
    with everlog.Cluster() as source, everlog.Cluster() as target:
        yield source.bootstrap_servers, target.bootstrap_servers


@pytest.fixture
def mirror(clusters: tuple[str, str], request: pytest.FixtureRequest) -> Mirror:
    """A mirror of topic `orders` with two partitions, under names of the test's own on the target."""
    made = Mirror(*clusters, topic=f"{request.node.name[-40:]}.{{topic}}")
    with everlog.Admin(clusters[0]) as admin:
        if "orders" in admin.list_topics():
            admin.delete_topics(["orders"])
        admin.create_topic(
            "orders", 2, configs={"retention.ms": "-1", "message.timestamp.type": "CreateTime"}
        )
    made.prepare({"orders"})
    return made


def produce(bootstrap: str, first: int, count: int) -> None:
    """Records with all that a record can have."""
    with everlog.Producer(bootstrap) as producer:
        for number in range(first, first + count):
            producer.send(
                "orders",
                None if number % 10 == 9 else b"value %d" % number,
                None if number % 7 == 6 else b"key %d" % number,
                partition=1,
                headers=[("number", b"%d" % number), ("empty", None)] if number % 2 else [],
                timestamp=1_700_000_000_000 + number,
            )


def read(bootstrap: str, topic: str, start: int = 0) -> Any:
    """What is committed in partition 1 from an offset on."""
    place = everlog.TopicPartition(topic, 1)
    batches: list[Any] = []
    with everlog.Consumer(
        bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([place])
        consumer.seek(place, start)
        end = consumer.end_offsets(place)[place]
        while consumer.position(place) < end:
            batch = consumer.poll_arrow(0.2)
            if batch.num_rows:
                batches.append(batch)
    return pa.Table.from_batches(batches) if batches else pa.table({"offset": pa.array([], pa.int64())})


def mirror_all(mirror: Mirror) -> None:
    """Write all of the source again, as who knows nothing of what was done."""
    write_slice(mirror, PLACE, read(mirror.source, "orders").to_batches())


KEPT = ["partition", "timestamp", "key", "value", "headers"]


def test_a_mirror_has_each_record_once_as_it_was(mirror: Mirror) -> None:
    for round_number in range(3):
        produce(mirror.source, 20 * round_number, 20)
        mirror_all(mirror)
        mirror_all(mirror)

    source, copy = read(mirror.source, "orders"), read(mirror.target, mirror.name_of("orders"))
    assert source.num_rows == 60
    assert copy.select(KEPT).to_pylist() == source.select(KEPT).to_pylist()


def test_settings_of_the_source_are_those_of_its_mirror(mirror: Mirror) -> None:
    from everlog.admin import ConfigResource

    resource = ConfigResource.topic(mirror.name_of("orders"))
    with everlog.Admin(mirror.target) as admin:
        assert admin.describe_configs([resource])[resource]["retention.ms"].value == "-1"


def test_partitions_that_are_added_are_mirrored_too(mirror: Mirror) -> None:
    with everlog.Admin(mirror.source) as admin:
        admin.create_partitions({"orders": 4})
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(mirror.prepare, {"orders"}) for _ in range(4)]
        prepared = [one.result() for one in asked]
    assert prepared == [{"orders": 4}] * 4
    with everlog.Admin(mirror.target) as admin:
        names = [mirror.name_of("orders"), mirror.map_name_of("orders")]
        assert {len(found.partitions) for found in admin.describe_topics(names).values()} == {4}


def test_every_offset_is_translated_to_the_very_record(mirror: Mirror) -> None:
    for round_number in range(4):
        produce(mirror.source, 7 * round_number, 7)
        mirror_all(mirror)
    with open_notes(mirror) as consumer:
        known = offset_maps(consumer, mirror, "orders")[PLACE]

    there = read(mirror.target, mirror.name_of("orders")).to_pylist()
    for row in read(mirror.source, "orders").to_pylist():
        answer = known.translate(row["offset"])
        assert answer.is_exact
        next_there = next(copy for copy in there if copy["offset"] >= answer.offset)
        assert next_there["timestamp"] == row["timestamp"]


def test_what_was_written_by_an_attempt_that_died_is_not_there(mirror: Mirror) -> None:
    produce(mirror.source, 0, 30)
    rows = read(mirror.source, "orders").to_batches()

    class Died(Exception):
        pass

    def dying() -> Generator[Any]:
        yield rows[0].slice(0, 10)
        raise Died

    with pytest.raises(Died):
        write_slice(mirror, PLACE, dying())
    assert read(mirror.target, mirror.name_of("orders")).num_rows == 0
    with open_notes(mirror) as consumer:
        assert last_slice(consumer, mirror, PLACE) is None

    mirror_all(mirror)
    assert read(mirror.target, mirror.name_of("orders")).num_rows == 30


def test_of_two_writers_the_later_takes_over(mirror: Mirror) -> None:
    produce(mirror.source, 0, 10)
    rows = read(mirror.source, "orders").to_batches()

    def overtaken() -> Generator[Any]:
        yield rows[0].slice(0, 5)
        mirror_all(mirror)
        yield rows[0].slice(5)

    with pytest.raises(everlog.EverlogError):
        write_slice(mirror, PLACE, overtaken())
    assert read(mirror.target, mirror.name_of("orders")).num_rows == 10


def test_the_last_note_is_found_behind_many_aborted_ones(mirror: Mirror) -> None:
    produce(mirror.source, 0, 5)
    mirror_all(mirror)
    with everlog.Producer(mirror.target, transactional_id=f"noise-{mirror.topic}") as producer:
        producer.init_transactions()
        for _ in range(40):
            producer.begin_transaction()
            producer.send(mirror.map_name_of("orders"), b"{}", b"0/0", partition=1).result(30)
            producer.send(mirror.map_name_of("orders"), b"{}", b"0/0", partition=1).result(30)
            producer.abort_transaction()
    with open_notes(mirror) as consumer:
        found = last_slice(consumer, mirror, PLACE)
    assert found is not None
    assert found.source_end == 5


def test_a_group_moves_without_losing_its_place(mirror: Mirror) -> None:
    produce(mirror.source, 0, 20)
    mirror_all(mirror)
    produce(mirror.source, 20, 20)
    mirror_all(mirror)
    with everlog.Admin(mirror.source) as admin:
        admin.alter_group_offsets("billing", {PLACE: 23})

    places = translate_group(mirror, "billing")
    move_group(mirror, "billing", places)

    with everlog.Consumer(
        mirror.target,
        group_id="billing",
        topics=[mirror.name_of("orders")],
        isolation_level="read_committed",
    ) as consumer:
        records: list[everlog.ConsumerRecord] = []
        while len(records) < 17:
            records += consumer.poll(1.0)
    assert records[0].key == b"key 23"
    assert len(records) == 17


def test_a_group_that_is_not_there_is_named(mirror: Mirror) -> None:
    with pytest.raises(everlog.EverlogError, match="group 'nobody' has committed no offsets in orders"):
        translate_group(mirror, "nobody", {"orders"})
    with everlog.Admin(mirror.source) as admin:
        admin.alter_group_offsets("billing", {PLACE: 0})
    with pytest.raises(everlog.EverlogError, match=r"no offset map at .* expected topic other\.orders"):
        translate_group(Mirror(mirror.source, mirror.target, topic="other.{topic}"), "billing")


def test_spans_end_at_gaps() -> None:
    assert spans_of(pa.array([3, 4, 5, 9, 11, 12], pa.int64())) == [(3, 3), (9, 1), (11, 2)]
    assert spans_of(pa.array([8], pa.int64())) == [(8, 1)]
    assert spans_of(pa.array([], pa.int64())) == []
    with pytest.raises(AssertionError, match="do not rise"):
        spans_of(pa.array([3, 3], pa.int64()))
