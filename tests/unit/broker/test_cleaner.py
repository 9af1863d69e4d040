"""Which log is compacted when, and that one which cannot be stops no other (L6)."""

import errno

import pytest

from everlog.broker.cleaner import RETRY_MS
from everlog.model.topics import TopicPartition
from everlog.records.batch import whole_batches
from everlog.records.reader import read_records
from everlog.sim.faults import Fault, Kind
from everlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from tests.unit.broker.simulated import Client, SimulatedNode, a_batch, fetched, produced

BACKOFF_MS = 15_000
COMPACT = {"cleanup_policy": "compact", "segment_bytes": "1048576", "min_cleanable_dirty_ratio": "0.1"}


def create(node: SimulatedNode, topic: str, **overrides: str) -> None:
    configs: dict[str, str] = {**COMPACT, **overrides}
    node.create_topic(topic, 1, **configs)


def fill(client: Client, topic: str, now: int, batches: int = 6) -> None:
    """More than two segments that say the same key over and over."""
    for number in range(batches):
        value = b"%d" % number + b"x" * 600_000
        assert produced(client, topic, a_batch(value, timestamp=now)).error_code == 0


def pass_time(node: SimulatedNode, ms: int) -> None:
    """Let time pass and all work beside the loop be done, a backoff at a time."""
    for _ in range(-(-ms // BACKOFF_MS)):
        node.pass_time(BACKOFF_MS)
        node.aside.run_all()


def offsets(client: Client, topic: str) -> list[int]:
    found: list[int] = []
    offset = 0
    while records := fetched(client, topic, offset).records:
        for batch in whole_batches(records):
            found += [record.offset for record in read_records(batch) if record.offset >= offset]
            offset = batch.next_offset
    return found


def clean_end(node: SimulatedNode, topic: str) -> int | None:
    return node.broker.directories[0].clean_ends.get(TopicPartition(topic, 0))


def test_a_dirty_log_is_compacted_in_the_background() -> None:
    node = SimulatedNode()
    create(node, "orders")
    client = node.client()
    fill(client, "orders", node.clock.wall())
    assert offsets(client, "orders") == [0, 1, 2, 3, 4, 5]
    pass_time(node, 3 * BACKOFF_MS)

    assert clean_end(node, "orders") == 5
    assert offsets(client, "orders") == [4, 5], "the active segment is left as it is"
    assert node.files.read("/data/cleaner-offset-checkpoint") == b"0\n1\norders 0 5\n"


def test_what_is_compacted_stays_so_after_a_restart() -> None:
    node = SimulatedNode()
    create(node, "orders")
    fill(node.client(), "orders", node.clock.wall())
    pass_time(node, 3 * BACKOFF_MS)
    node.start()

    assert clean_end(node, "orders") == 5
    assert offsets(node.client(), "orders") == [4, 5]


@pytest.mark.parametrize("policy", ["compact,delete", "delete"])
def test_the_policy_decides(policy: str) -> None:
    node = SimulatedNode()
    create(node, "orders", cleanup_policy=policy)
    client = node.client()
    fill(client, "orders", node.clock.wall())
    pass_time(node, 3 * BACKOFF_MS)

    assert (offsets(client, "orders")[0] > 0) == (policy != "delete")


def test_both_policies_at_once_delete_what_is_too_old() -> None:
    node = SimulatedNode(log_retention_check_interval_ms="60000")
    create(node, "orders", cleanup_policy="compact,delete", retention_ms="3600000")
    client = node.client()
    fill(client, "orders", node.clock.wall())
    pass_time(node, 3 * BACKOFF_MS)
    assert offsets(client, "orders") == [4, 5]
    pass_time(node, 2 * 3_600_000)

    assert node.replica("orders").opened().start_offset == 6


def test_a_log_that_is_not_dirty_enough_waits() -> None:
    node = SimulatedNode()
    create(node, "orders", min_cleanable_dirty_ratio="0.7")
    client = node.client()
    fill(client, "orders", node.clock.wall())
    pass_time(node, 3 * BACKOFF_MS)
    assert clean_end(node, "orders") == 5

    produced(client, "orders", a_batch(b"y" * 600_000, timestamp=node.clock.wall()))
    pass_time(node, 5 * BACKOFF_MS)
    assert clean_end(node, "orders") == 5, "one dirty segment beside one clean one is a half"


def test_a_record_is_compacted_when_it_has_waited_for_the_longest_lag() -> None:
    node = SimulatedNode()
    create(node, "orders", min_cleanable_dirty_ratio="1.0", max_compaction_lag_ms="3600000")
    client = node.client()
    produced(client, "orders", a_batch(b"1", timestamp=node.clock.wall()))
    produced(client, "orders", a_batch(b"2", timestamp=node.clock.wall()))
    pass_time(node, 3_600_000)
    assert offsets(client, "orders") == [0, 1]
    produced(client, "orders", a_batch(b"3", timestamp=node.clock.wall() + 1))
    pass_time(node, 10 * BACKOFF_MS)

    assert offsets(client, "orders") == [1, 2], "its segment was sealed for it"


def test_the_cleaner_can_be_turned_off() -> None:
    node = SimulatedNode(log_cleaner_enable="false")
    create(node, "orders")
    client = node.client()
    fill(client, "orders", node.clock.wall())
    pass_time(node, 5 * BACKOFF_MS)

    assert offsets(client, "orders") == [0, 1, 2, 3, 4, 5]
    assert not node.files.exists("/data/cleaner-offset-checkpoint")


def test_a_damaged_log_is_left_alone_and_the_others_are_compacted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = SimulatedNode()
    client = node.client()
    for topic in ("damaged", "sound"):
        create(node, topic)
        fill(client, topic, node.clock.wall())
    node.files.flip_bit("/data/damaged-0/00000000000000000000.log", 5000, 1)
    pass_time(node, 10 * BACKOFF_MS)

    assert offsets(client, "sound") == [4, 5]
    assert clean_end(node, "damaged") == 0
    complaints = [r for r in caplog.records if "damaged-0 cannot be compacted" in r.getMessage()]
    assert len(complaints) == 1, "it is said once and not every time"


def test_a_disk_that_refuses_is_asked_again_later() -> None:
    node = SimulatedNode()
    create(node, "orders")
    client = node.client()
    fill(client, "orders", node.clock.wall())
    node.files.faults.append(Fault(Kind.CREATE, errno.ENOSPC, path_part=".cleaned"))
    pass_time(node, 3 * BACKOFF_MS)
    node.files.faults.clear()
    assert offsets(client, "orders") == [0, 1, 2, 3, 4, 5]
    assert produced(client, "orders", a_batch(b"more")).error_code == 0
    pass_time(node, RETRY_MS + BACKOFF_MS)

    assert offsets(client, "orders") == [4, 5, 6]


def test_the_dirtiest_log_comes_first() -> None:
    # All is durable when the cleaner looks: that is seen to every minute.
    node = SimulatedNode(log_cleaner_backoff_ms="200000")
    client = node.client()
    for topic in ("first", "second"):
        create(node, topic)
        fill(client, topic, node.clock.wall())
    pass_time(node, 660_000)
    assert clean_end(node, "first") == clean_end(node, "second") == 5
    fill(client, "first", node.clock.wall(), 2)
    fill(client, "second", node.clock.wall(), 6)
    order: list[str] = []
    directory = node.broker.directories[0]
    for _ in range(40):
        node.pass_time(BACKOFF_MS)
        while node.aside.finish() or node.aside.work():
            order += [
                partition.topic
                for partition, end in directory.clean_ends.items()
                if end > 5 and partition.topic not in order
            ]

    assert order == ["second", "first"]


def test_a_topic_that_is_deleted_meanwhile_disturbs_nobody() -> None:
    node = SimulatedNode()
    client = node.client()
    for topic in ("doomed", "orders"):
        create(node, topic)
        fill(client, topic, node.clock.wall())
    node.pass_time(BACKOFF_MS)
    node.aside.run_all()
    node.pass_time(BACKOFF_MS)
    for _ in range(4):
        node.aside.work()
        node.aside.finish()
    client.call(DeleteTopicsRequest(topic_names=["doomed"], timeout_ms=1), 5, DeleteTopicsResponse)
    pass_time(node, 4 * BACKOFF_MS)

    assert offsets(client, "orders") == [4, 5]
    assert clean_end(node, "doomed") is None


def test_the_rate_is_bounded() -> None:
    node = SimulatedNode(log_cleaner_io_max_bytes_per_second="100000")
    create(node, "orders")
    client = node.client()
    fill(client, "orders", node.clock.wall())
    pass_time(node, 3 * BACKOFF_MS)
    assert offsets(client, "orders") == [0, 1, 2, 3, 4, 5], "seven megabytes take a minute and more"
    for _ in range(300):
        node.pass_time(1000)
        node.aside.run_all()

    assert offsets(client, "orders") == [4, 5]


def test_memory_too_small_for_all_keys_takes_several_rounds() -> None:
    node = SimulatedNode(log_cleaner_dedupe_buffer_size="72", log_cleaner_io_buffer_load_factor="0.99")
    create(node, "orders")
    client = node.client()
    keys = [b"a", b"b", b"c", b"d"]
    for number in range(6):
        batch = a_batch(*[b"%d" % number + b"x" * 200_000] * 4, keys=keys, timestamp=node.clock.wall())
        assert produced(client, "orders", batch).error_code == 0
    pass_time(node, 20 * BACKOFF_MS)

    assert clean_end(node, "orders") == 20
    assert offsets(client, "orders") == list(range(16, 24))
