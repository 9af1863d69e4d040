"""Records through a query, one every few milliseconds: how long each needs from topic to topic.

`python -m bench.spark.pulse BOOTSTRAP SOURCE TARGET RATE WARM_UP_S SECONDS ISOLATION` sends and reads in one
process of its own, so that both ends have one clock, and prints the milliseconds of each record as JSON. What
is sent while it warms up, and what had to wait for that, is not counted.
"""

import json
import sys
import threading
import time
from typing import Any

import everlog

_PATIENCE_S = 60.0


def main() -> None:
    """Send, read, and print what each record needed."""
    bootstrap, source, target, *figures = sys.argv[1:]
    rate, warm_up_s, seconds = (float(figure) for figure in figures[:3])
    took_ms: dict[int, float] = {}
    stop = threading.Event()
    with _consumer(bootstrap, target, figures[3]) as consumer:
        reading = threading.Thread(target=_read, args=(consumer, took_ms, stop), daemon=True)
        reading.start()
        first, last = _send(bootstrap, source, rate, warm_up_s, seconds)
        deadline = time.monotonic() + _PATIENCE_S
        while not all(number in took_ms for number in range(first, last)) and time.monotonic() < deadline:
            time.sleep(0.05)
        stop.set()
        reading.join()
    missing = [number for number in range(first, last) if number not in took_ms]
    if missing:
        sys.exit(f"{len(missing)} of {last - first} records did not come within {_PATIENCE_S:.0f} s")
    print(json.dumps([round(took_ms[number], 3) for number in range(first, last)]))


def _consumer(bootstrap: str, topic: str, isolation: str) -> everlog.Consumer:
    options: dict[str, Any] = {"isolation_level": isolation}
    consumer = everlog.Consumer(bootstrap, **options, auto_offset_reset="latest")
    consumer.assign([(topic, partition.index) for partition in consumer.partitions_for(topic)])
    consumer.poll(0.1)  # So that it knows where the end is before the first record is sent.
    return consumer


def _read(consumer: everlog.Consumer, took_ms: dict[int, float], stop: threading.Event) -> None:
    while not stop.is_set():
        for record in consumer.poll(0.2):
            number, sent = (record.value or b"").split()[:2]
            # The first time counts, if it should come twice.
            took_ms.setdefault(int(number), (time.time_ns() - int(sent)) / 1e6)


def _send(bootstrap: str, topic: str, rate: float, warm_up_s: float, seconds: float) -> tuple[int, int]:
    """Send at a steady pace that waits for nobody; the numbers of the records that count."""
    first, last = int(rate * warm_up_s), int(rate * (warm_up_s + seconds))
    with everlog.Producer(bootstrap, linger_ms=0) as producer:
        began = time.monotonic()
        for number in range(last):
            ahead = began + number / rate - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
            producer.send(topic, b"%d %d" % (number, time.time_ns()))
    return first, last


if __name__ == "__main__":
    main()
