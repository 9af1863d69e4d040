"""The sink's processes settle their memory: Spark uses each of them for batch after batch."""

import subprocess
import sys

SCRIPT = """
import gc

from pyspark.sql.types import BinaryType, StructField, StructType

from everlog.spark import worker_memory
from everlog.spark.sink.options import SinkOptions
from everlog.spark.sink.writers import BatchWriter, StreamWriter, stream_writer

given = {"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "t", "deliveryGuarantee": "at_least_once"}
schema = StructType([StructField("value", BinaryType())])
options = SinkOptions.read(given)
uses = {
    "plan and commit": lambda: stream_writer(given, schema, False),
    "stream": lambda: StreamWriter(options, schema).write(iter(())),
    "batch": lambda: BatchWriter(options, schema).write(iter(())),
}
for name, use in uses.items():
    gc.unfreeze()
    worker_memory._state.settled = 0
    use()
    assert gc.get_freeze_count() > 1000, name
"""


def test_what_the_sink_has_loaded_is_not_looked_at_after_each_task() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
