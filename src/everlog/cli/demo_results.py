"""What came out of the demo's pipeline: read without Spark, and held against the orders."""

import json
from collections import Counter
from dataclasses import dataclass, field

from everlog.cli.connect import open_admin
from everlog.cli.demo_orders import Minute, Orders
from everlog.client.core.metadata import Partition
from everlog.client.sync.consumer import Consumer
from everlog.model.topics import TopicPartition
from everlog.tables.spec import TableSpec
from everlog.tables.table import open_table

ADMIN_SECONDS = 30.0


class VolumeReader:
    """Reads committed minutes from the topic of the volume as they come."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.minutes: dict[str, Minute] = {}
        self.repeated: Counter[str] = Counter()
        """Minutes that came more than once, which none should."""
        self._consumer = Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest")
        found: list[Partition] = self._consumer.partitions_for(topic)
        self._consumer.assign([TopicPartition(topic, partition.index) for partition in found])

    def poll(self, seconds: float) -> list[tuple[str, Minute]]:
        """The minutes that came within so long."""
        came: list[tuple[str, Minute]] = []
        for record in self._consumer.poll(seconds):
            shape = json.loads(record.value or b"{}")
            minute = Minute(shape["orders"], shape["volume_cents"])
            if shape["minute"] in self.minutes:
                self.repeated[shape["minute"]] += 1
            self.minutes[shape["minute"]] = minute
            came.append((shape["minute"], minute))
        return came

    def close(self) -> None:
        """Leave the cluster."""
        self._consumer.close()


@dataclass(frozen=True, slots=True)
class TableFound:
    """The table as it is."""

    location: str
    format: str
    rows: int
    orders: int
    """Different ones."""
    total_cents: int
    files: int
    commits: int
    size_bytes: int


def rows_in_table(spec: TableSpec) -> int:
    """How many rows are committed."""
    return open_table(spec, create=False).describe().rows


def read_table(spec: TableSpec) -> TableFound:
    """Read all of it."""
    table = open_table(spec, create=False)
    rows = table.read(["order_id", "total_cents"])
    described = table.describe()
    return TableFound(
        spec.location,
        spec.format,
        rows.num_rows,
        len(set(rows.column("order_id").to_pylist())),
        sum(rows.column("total_cents").to_pylist()),
        described.files,
        len(table.history()),
        described.size_bytes,
    )


def group_lag(bootstrap: str, group: str) -> int | None:
    """How many records a group has not committed yet; None before its first commit."""
    with open_admin(bootstrap, ADMIN_SECONDS) as admin:
        if not admin.list_group_offsets(group):
            return None
        lags = [entry.lag for entry in admin.group_lag(group) if entry.lag is not None]
    return sum(lags) if lags else None


@dataclass(frozen=True, slots=True)
class ClusterFound:
    """The brokers, and how many of them keep a partition of the demo's topics."""

    brokers: list[str]
    copies: int
    """At the least, as `in_sync`, which is how many have all of it."""
    in_sync: int


def find_cluster(bootstrap: str, topics: list[str]) -> ClusterFound:
    """Ask the brokers of these addresses for the copies of topics."""
    with open_admin(bootstrap, ADMIN_SECONDS) as admin:
        found = admin.describe_topics(topics)
    places = [one for topic in found.values() for one in topic.partitions.values()]
    copies = min(len(one.replicas) for one in places)
    return ClusterFound(bootstrap.split(","), copies, min(len(one.isr) for one in places))


@dataclass(slots=True)
class Checks:
    """What must hold if every order counts once, each with what was found and expected."""

    held: list[str] = field(default_factory=list[str])
    broken: list[str] = field(default_factory=list[str])

    @property
    def all_held(self) -> bool:
        """Whether nothing was lost and nothing came twice."""
        return not self.broken

    def _note(self, holds: bool, what: str) -> None:
        (self.held if holds else self.broken).append(what)


def check(orders: Orders, volume: VolumeReader, table: TableFound, lag: int | None) -> Checks:
    """Hold what came out against what went in."""
    checks = Checks()
    note = checks._note  # pyright: ignore[reportPrivateUsage]
    closed = orders.closed
    wrong = [minute for minute, placed in closed.items() if volume.minutes.get(minute) != placed]
    other = [minute for minute in volume.minutes if minute not in closed]
    right = len(closed) - len(wrong)
    note(not wrong and not other, f"{right} of {len(closed)} minutes have the count and sum of their orders")
    note(not volume.repeated, f"{sum(volume.repeated.values())} minutes came twice")
    count = len(orders.records)
    note(table.rows == count, f"{table.rows:,} rows in the table for {count:,} orders")
    note(table.orders == count, f"{table.orders:,} different orders in the table")
    note(table.total_cents == orders.total_cents, "the table's total is that of the orders")
    note(lag == 0, f"group lag is {lag}")
    return checks
