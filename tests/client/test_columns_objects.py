"""Columns go there and back without a Python object per record, where the kernels are built (P6, C6)."""

import gc
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from everlog import Consumer, Producer
from everlog.records.columns import columns_are_compiled
from tests.client.conftest import NewTopic

pa: Any = import_module("pyarrow")

PATIENCE_S = 60.0
ROWS = 100_000
FEW = ROWS // 50
"""Objects for batches, requests and answers; with one a record it would be fifty times as many."""

pytestmark = pytest.mark.skipif(not columns_are_compiled(), reason="the kernel of columns is not built")


TRIES = 3
"""Other threads make objects too, such as what is loaded at its first use, but not as many each time."""


def objects_kept(work: Callable[[], object]) -> int:
    """How many objects more there are with what a call returns than before, where others made fewest."""
    counts: list[int] = []
    for _ in range(TRIES):
        gc.collect()
        before = sys.getallocatedblocks()
        found = work()
        counts.append(sys.getallocatedblocks() - before)
        del found
    return min(counts)


def test_p6_columns_are_sent_and_polled_without_an_object_per_record(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    table = pa.table(
        {
            "key": pa.array([b"customer-%d" % number for number in range(ROWS)], pa.binary()),
            "value": pa.array([b"order %d" % number for number in range(ROWS)], pa.binary()),
        }
    )
    with Producer(bootstrap) as producer:
        producer.send_arrow(topic, table.slice(0, 10)).result(PATIENCE_S)
        assert objects_kept(lambda: producer.send_arrow(topic, table)) < FEW
        producer.flush(PATIENCE_S)

    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        consumer.poll_arrow(PATIENCE_S)

        def poll_all() -> list[Any]:
            consumer.seek_to_beginning()
            batches: list[Any] = []
            while sum(batch.num_rows for batch in batches) < TRIES * ROWS + 10:
                batches.append(consumer.poll_arrow(PATIENCE_S))
            return batches

        assert objects_kept(poll_all) < FEW


def test_p6_one_by_one_there_is_an_object_for_each_record(bootstrap: str, new_topic: NewTopic) -> None:
    """So that the bound above is known to show something."""
    topic = new_topic()
    with Producer(bootstrap) as producer:
        made = objects_kept(lambda: [producer.send(topic, b"order") for _ in range(ROWS)])
    assert made > ROWS / 2
