from everlog.ports.files import Buffer
from everlog.records.rows_plain import BatchBuffer as BatchBuffer
from everlog.records.rows_plain import ConsumerRecord as ConsumerRecord
from everlog.records.rows_plain import read_rows as read_rows

def murmur2(data: Buffer, /) -> int:
    """Return the 32-bit hash of `data` that Kafka's clients agree on, as an unsigned number."""
