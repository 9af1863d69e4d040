"""Orders read back from their topic, for a demo without Spark."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

from everlog.cli.connect import open_admin
from everlog.cli.demo_orders import Minute, Written
from everlog.cli.ranges import RangeReader, open_reader, places_of, resolve_ranges
from everlog.client.core.consumer.offset_spec import parse_offset_spec
from everlog.model.ids import Timestamp

READ_SECONDS = 30.0


def maker_of_orders() -> Path:
    """The program that makes the orders of the template `shop`."""
    from everlog.pipelines.scaffold import TEMPLATES

    return TEMPLATES / "shop" / "data" / "orders.py"


@dataclass(slots=True)
class ReadBack:
    """What a topic gave back, by the minute in which orders were placed."""

    minutes: dict[str, Minute] = field(default_factory=dict[str, Minute])
    records: int = 0
    pace: Written = field(default_factory=Written)


def read_back(bootstrap: str, topic: str) -> ReadBack:
    """All orders of a topic from its first record to what is the end now."""
    spec = parse_offset_spec("start", Timestamp(0))
    with open_admin(bootstrap, READ_SECONDS) as admin:
        places = places_of(admin, topic, None)
        ranges = resolve_ranges(admin, places, spec, read_committed=False, stop_at_end=True)
    found = ReadBack()
    began = time.perf_counter()
    with open_reader(bootstrap, READ_SECONDS) as consumer:
        reader = RangeReader(consumer, ranges)
        while not reader.finished:
            for record in reader.poll():
                order = json.loads(record.value or b"{}")
                minute = found.minutes.setdefault(f"{order['at'][:16]}:00Z", Minute())
                minute.orders += 1
                minute.volume_cents += order["total_cents"]
                found.records += 1
        size_bytes = consumer.metrics()["bytes_fetched"]
    found.pace = Written(found.records, size_bytes, time.perf_counter() - began)
    return found
