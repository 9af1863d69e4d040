"""`python -m tests.client.round_trip BOOTSTRAP TOPIC`: records and columns there and back, by one program.

It prints what it read as JSON, and whether kernels served it.
"""

import json
import sys
import time
from importlib import import_module
from typing import Any

from everlog import Consumer, Producer
from everlog.broker.handlers.produce_run import lanes_are_built
from everlog.records.columns import columns_are_compiled
from everlog.records.rows import rows_are_compiled
from everlog.records.skim import kernel_is_loaded

pa: Any = import_module("pyarrow")

PATIENCE_S = 60.0


def main(bootstrap: str, topic: str) -> dict[str, object]:
    """Send with `send` and `send_arrow`, read all of it with `poll` and with `poll_arrow`."""
    rows = pa.table({"key": [b"c", None], "value": [b"column 1", b"column 2"], "partition": [0, 1]})
    with Producer(bootstrap, compression_type="lz4") as producer:
        for number in range(100):
            producer.send(topic, b"row %d" % number, b"%d" % number, headers=[("n", b"%d" % number)])
        producer.send(topic, b"without a key").result(PATIENCE_S)
        producer.send_arrow(topic, rows).result(PATIENCE_S)
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        polled: list[list[str | None]] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(polled) < 103 and time.monotonic() < deadline:
            polled += [
                [_text(one.key), _text(one.value), *(_text(value) for _, value in one.headers)]
                for one in consumer.poll(1.0)
            ]
        consumer.seek_to_beginning()
        columns: list[list[str | None]] = []
        while len(columns) < 103 and time.monotonic() < deadline:
            for row in consumer.poll_arrow(1.0).to_pylist():
                columns.append([_text(row["key"]), _text(row["value"])])
                columns[-1] += [_text(header["value"]) for header in row["headers"]]
    compiled = [rows_are_compiled(), columns_are_compiled(), kernel_is_loaded(), lanes_are_built()]
    return {"compiled": compiled, "poll": polled, "poll_arrow": columns}


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2])))
