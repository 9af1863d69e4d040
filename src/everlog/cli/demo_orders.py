"""The orders of the demo: made, counted and written, so that what comes out can be held against them."""

import json
import runpy
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from everlog.cli.connect import open_producer
from everlog.client.core.producer.delivery import Delivery
from everlog.model.errors import EverlogError

PATIENCE_SECONDS = 60.0
_TICK_SECONDS = 0.05


@dataclass(slots=True)
class Minute:
    """The orders of one minute."""

    orders: int = 0
    volume_cents: int = 0


@dataclass(slots=True)
class Orders:
    """All orders, and what is to come out of them."""

    records: list[tuple[bytes, bytes]]
    minutes: dict[str, Minute]
    """By the minute in which they were placed, such as `2026-01-15T11:30:00Z`; the last is never over."""
    total_cents: int

    @property
    def closed(self) -> dict[str, Minute]:
        """The minutes that are over for sure: all but that of the last order, which closes the others."""
        return dict(sorted(self.minutes.items())[:-1])


def make_orders(maker: Path, count: int) -> Orders:
    """The first `count` orders of a program with a function `records`, the same ones every time."""
    records: list[tuple[bytes, bytes]] = []
    minutes: dict[str, Minute] = {}
    total = 0
    for made in runpy.run_path(str(maker))["records"](count):
        order = made["value"]
        minute = minutes.setdefault(f"{order['at'][:16]}:00Z", Minute())
        minute.orders += 1
        minute.volume_cents += order["total_cents"]
        total += order["total_cents"]
        records.append((made["key"].encode(), json.dumps(order, separators=(",", ":")).encode()))
    return Orders(records, minutes, total)


@dataclass(slots=True)
class Written:
    """What was delivered."""

    records: int = 0
    size_bytes: int = 0
    seconds: float = 0.0


@dataclass
class OrderStream:
    """Writes orders on a thread: half of them at once, the rest evenly in `seconds` after `go_live`."""

    bootstrap: str
    topic: str
    orders: Orders
    seconds: float
    written: Written = field(default_factory=Written)
    """Of both halves, as far as they are delivered."""
    waiting: int = 0
    """How many were delivered before it went live."""
    error: EverlogError | None = None

    def __post_init__(self) -> None:
        self._live = threading.Event()
        self._ending = threading.Event()
        self._first_done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-orders", daemon=True)

    def start(self) -> None:
        """Begin with the first half, and return when it is delivered."""
        self._thread.start()
        self._first_done.wait()
        self.check()

    def go_live(self) -> None:
        """Let the second half begin."""
        self._live.set()

    def check(self) -> None:
        """Raise what has gone wrong."""
        if self.error is not None:
            raise self.error

    @property
    def is_done(self) -> bool:
        """Whether all are delivered."""
        return not self._thread.is_alive() and self.error is None

    def close(self) -> None:
        """End early, if it has not ended."""
        self._ending.set()
        self._live.set()
        if self._thread.ident is not None:
            self._thread.join(PATIENCE_SECONDS)

    def _run(self) -> None:
        half = len(self.orders.records) // 2
        try:
            self._write(iter(self.orders.records[:half]), None)
            self.waiting = self.written.records
            self._first_done.set()
            self._live.wait()
            rest = len(self.orders.records) - half
            self._write(iter(self.orders.records[half:]), rest / self.seconds if self.seconds else None)
        except EverlogError as error:
            self.error = error
        finally:
            self._first_done.set()

    def _write(self, records: Iterator[tuple[bytes, bytes]], rate: float | None) -> None:
        """Send them as fast as the broker takes them, or so many a second."""
        began = time.perf_counter()
        sent = 0
        seconds_before, bytes_before = self.written.seconds, self.written.size_bytes
        with open_producer(
            self.bootstrap, PATIENCE_SECONDS, batch_size=64 * 1024, enable_idempotence=True
        ) as producer:
            deliveries: list[Delivery] = []
            for key, value in records:
                deliveries.append(producer.send(self.topic, value, key))
                sent += 1
                if rate is not None and sent % max(1, int(rate * _TICK_SECONDS)) == 0:
                    self.written.records += _settled(deliveries)
                    if self._ending.wait(max(0.0, began + sent / rate - time.perf_counter())):
                        break
            producer.flush()
            self.written.records += _settled(deliveries)
            self.written.seconds = seconds_before + time.perf_counter() - began
            self.written.size_bytes = bytes_before + producer.metrics()["bytes_sent"]


def _settled(deliveries: list[Delivery]) -> int:
    """Take those that are delivered off the front; raises the error of one that is not."""
    done = 0
    while done < len(deliveries) and deliveries[done].done():
        deliveries[done].result()
        done += 1
    del deliveries[:done]
    return done
