"""Bad records to the dead-letter topic, once each.

Letters go before the table's commit, in a transaction that also commits, for a group of the writer, the ends
of the batch's offset ranges. A batch that is done again after a crash finds those ends, and sends only what
lies behind them. Of a query, whose rows may come long after others of their offsets, the group has the batch
as metadata: run again it sends nothing. So a letter is sent once for each writer, and a table never holds an
offset whose letter was not sent.
"""

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from everlog.client import Admin, ErrorCode, GroupMetadata, ItemsRefused, OffsetAndMetadata, Producer
from everlog.client.core.dead_letters import letter_headers
from everlog.model.topics import TopicPartition
from everlog.records.rows import ConsumerRecord
from everlog.tables import steps
from everlog.tables.arrow import Rows
from everlog.tables.errors import BadRecords, TableMisdeclared, Unreadable
from everlog.tables.offsets import OffsetRanges
from everlog.tables.spec import TableSpec


class LetterBox:
    """Sends the bad records of one writer of a table. It connects when there is the first bad record.

    One box at a time: another one of the same writer fences it.
    """

    def __init__(self, spec: TableSpec, writer: str, client: Mapping[str, Any] | None = None) -> None:
        self._spec = spec
        self._name = f"everlog-table.{spec.name}.{writer}.letters"
        self._client = dict(client or {})
        self._producer: Producer | None = None
        self._sent: dict[TopicPartition, int] = {}
        """Ends of what earlier transactions of this writer have dealt with."""
        self._batch: int | None = None
        """The last batch whose letters were sent, where they were told apart by batches."""

    def send(self, bad: Rows, ranges: OffsetRanges, batch_id: int | None = None) -> int:
        """Send the bad records of a batch, but for those that an earlier try has sent; returns how many.

        With a `batch_id` an earlier try is one at the same batch, which always has the same records.
        """
        if not bad.num_rows:
            return 0
        topic = self._spec.dead_letter_topic
        if topic is None:
            first = bad.slice(0, 1).to_pylist()[0]
            raise BadRecords(
                f"{bad.num_rows} records cannot become rows of table {self._spec.name}, the first is "
                f"{first['topic']}-{first['partition']} at offset {first['offset']}: {first['error']}; "
                "declare dead_letter_topic to have them sent there"
            )
        producer = self._opened(topic)
        due = self._due(bad.to_pylist(), batch_id)
        if not due:
            return 0
        ends = {place: max(end, self._sent.get(place, 0)) for place, (_, end) in ranges.spans.items()}
        noted: dict[TopicPartition, int | OffsetAndMetadata] = dict(ends)
        if batch_id is not None:
            # A batch may have no range of its own, and has to be noted all the same.
            ends = {**{_place(row): self._sent.get(_place(row), 0) for row in due}, **ends}
            noted = {place: OffsetAndMetadata(end, str(batch_id)) for place, end in ends.items()}
        now = time.time_ns() // 1_000_000
        with producer.transaction():
            for row in due:
                record = _record(row)
                headers = letter_headers(record, Unreadable(row["error"]), 1, self._name, now)
                producer.send(topic, record.value, key=record.key, headers=headers)
            producer.send_offsets_to_transaction(noted, GroupMetadata(self._name))
            steps.reached("letters-sent")
        steps.reached("letters-committed")
        self._sent |= ends
        self._batch = batch_id if batch_id is not None else self._batch
        return len(due)

    def _due(self, rows: Sequence[Mapping[str, Any]], batch_id: int | None) -> Sequence[Mapping[str, Any]]:
        if batch_id is not None and self._batch is not None:
            return rows if batch_id > self._batch else ()
        return [row for row in rows if row["offset"] >= self._sent.get(_place(row), 0)]

    def _opened(self, topic: str) -> Producer:
        if self._producer is not None:
            return self._producer
        bootstrap = self._spec.bootstrap
        if bootstrap is None:
            raise TableMisdeclared(
                f"table {self._spec.name}: bootstrap is missing: expected the brokers' addresses"
            )
        producer = Producer(bootstrap, transactional_id=self._name, **self._client)
        try:
            # This ends whatever the last holder of the name left open, so that what is committed is final.
            producer.init_transactions()
            with Admin(bootstrap, **self._client) as admin:
                ensure_topic(admin, topic)
                found = admin.list_group_offsets(self._name, require_stable=True)
        except BaseException:
            producer.close()
            raise
        self._sent = {place: entry.offset for place, entry in found.items()}
        batches = [int(entry.metadata) for entry in found.values() if entry.metadata.isdecimal()]
        self._batch = max(batches, default=None)
        self._producer = producer
        return producer

    def close(self) -> None:
        """Disconnect."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def ensure_topic(admin: Admin, topic: str, configs: Mapping[str, str] | None = None) -> None:
    """Have a topic there; made with one partition if it is not."""
    if topic in admin.list_topics(internal=True):
        return
    try:
        admin.create_topic(topic, 1, configs=configs)
    except ItemsRefused as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        admin.wait_for_topics([topic])


def _place(row: Mapping[str, Any]) -> TopicPartition:
    return TopicPartition(row["topic"], row["partition"])


def _record(row: Mapping[str, Any]) -> ConsumerRecord:
    stamp = row["timestamp"]
    return ConsumerRecord(
        row["topic"],
        row["partition"],
        row["offset"],
        -1 if stamp is None else int(stamp.timestamp() * 1000),
        0,
        row["key"],
        row["value"],
        tuple((each["key"], each["value"]) for each in row["headers"] or ()),
        -1,
    )
