"""The demo that `make run` starts: a broker, a topic of orders, a stream into it, and what came out of it.

The broker is a process of its own, as `everlog up` starts it. After the summary it goes on serving until
Ctrl-C; with `--exit` the demo ends instead. The orders come from a seed, so every run makes the same ones.
"""

import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import click

from everlog.cli.connect import open_admin, open_producer
from everlog.cli.measure import Throughput
from everlog.cli.progress import Progress
from everlog.cli.ranges import RangeReader, open_reader, places_of, resolve_ranges
from everlog.cli.shapes import size_text
from everlog.client.core.consumer.offset_spec import parse_offset_spec
from everlog.client.core.producer.delivery import Delivery
from everlog.model.errors import EverlogError
from everlog.model.ids import Timestamp

TOPIC = "orders"
PARTITIONS = 3
START_SECONDS = 30.0
PATIENCE_SECONDS = 30.0
STOP_SECONDS = 15.0

_PRICES = {
    "margherita": 950,
    "ramen": 1450,
    "falafel": 820,
    "pad thai": 1290,
    "burger": 1180,
    "poke bowl": 1390,
    "tiramisu": 640,
}
_CITIES = ("Berlin", "Lisbon", "Nairobi", "Osaka", "Porto Alegre", "Tallinn", "Vancouver")
_STATUSES = ("delivered", "paid", "placed", "refunded", "cancelled")
_STATUS_WEIGHTS = (70, 12, 10, 3, 5)


def sample_orders(count: int, seed: int = 7) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of orders: the customer, and the order as JSON."""
    chance = random.Random(seed)
    for number in range(count):
        customer = f"customer-{int(chance.expovariate(1 / 700)) % 5000:04d}"
        dishes = {
            dish: chance.choice((1, 1, 1, 2, 3))
            for dish in chance.sample(sorted(_PRICES), k=chance.randint(1, 3))
        }
        order = {
            "order_id": f"{number:08d}",
            "customer": customer,
            "city": chance.choice(_CITIES),
            "status": chance.choices(_STATUSES, _STATUS_WEIGHTS)[0],
            "items": [
                {"dish": dish, "quantity": quantity, "price_cents": _PRICES[dish]}
                for dish, quantity in dishes.items()
            ],
            "total_cents": sum(_PRICES[dish] * quantity for dish, quantity in dishes.items()),
        }
        yield customer.encode(), json.dumps(order, separators=(",", ":")).encode()


@dataclass(slots=True)
class Written:
    """What was delivered."""

    records: int = 0
    size_bytes: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class ReadBack:
    """What was read, by status, with the offsets that were read."""

    statuses: Counter[str]
    total_cents: int
    size_bytes: int
    seconds: float
    offsets: dict[int, tuple[int, int]]

    @property
    def records(self) -> int:
        """How many orders there were."""
        return self.statuses.total()


@click.command()
@click.option(
    "--count",
    type=click.IntRange(min=1),
    metavar="N",
    default=50_000,
    show_default=True,
    help="How many orders.",
)
@click.option("--exit", "exits", is_flag=True, help="End after the summary instead of serving on.")
def main(*, count: int, exits: bool) -> None:
    """Start a broker, stream sample orders into it, read them back, and leave it serving."""
    # Whoever ends us by SIGTERM means the broker too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _broker() as (broker, bootstrap):
            with open_admin(bootstrap, START_SECONDS) as admin:
                admin.create_topic(TOPIC, PARTITIONS)
            written = _write(bootstrap, count)
            found = _read(bootstrap)
            _summarise(bootstrap, written, found)
            if found.records != count:
                raise EverlogError(f"topic {TOPIC!r} gave back {found.records} orders, expected {count}")
            if not exits:
                _serve_on(broker, bootstrap)
    except KeyboardInterrupt:
        pass
    except (EverlogError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


@contextmanager
def _broker() -> Generator[tuple["subprocess.Popen[str]", str]]:
    """Run `everlog up` in a directory of its own; at the end both go."""
    directory = tempfile.mkdtemp(prefix="everlog-demo-")
    log_path = os.path.join(directory, "broker.log")
    command = [
        *(sys.executable, "-m", "everlog.cli", "up"),
        *("--dir", os.path.join(directory, "data"), "--port", str(_port())),
    ]
    with open(log_path, "w", encoding="utf-8") as log:
        # A group of its own: Ctrl-C reaches us alone, and we stop the broker when we are ready.
        broker = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
    try:
        yield broker, _bootstrap_of(broker, log_path)
    finally:
        broker.terminate()
        try:
            broker.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            broker.kill()
            broker.wait()
        if broker.stdout is not None:
            broker.stdout.close()
        shutil.rmtree(directory, ignore_errors=True)


def _port() -> int:
    """Kafka's port if nobody has it, else any."""
    with socket.socket() as probe:
        # As the broker will: a port whose last connections are still closing is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            probe.bind(("127.0.0.1", 9092))
            return 9092
    return 0


def _bootstrap_of(broker: "subprocess.Popen[str]", log_path: str) -> str:
    """The address in the broker's first line; EverlogError with its last words if there is none in time."""
    assert broker.stdout is not None
    began = time.monotonic()
    readable, _, _ = select.select([broker.stdout], [], [], START_SECONDS)
    line = broker.stdout.readline().strip() if readable else ""
    if not line.startswith("ready bootstrap="):
        with open(log_path, encoding="utf-8") as log:
            words = log.read().strip().splitlines()
        raise EverlogError(f"the broker did not start: {words[-1] if words else 'it said nothing'}")
    bootstrap = line.partition("=")[2]
    click.echo(f"A broker serves at {bootstrap}, {time.monotonic() - began:.2f} s after its start.")
    return bootstrap


def _write(bootstrap: str, count: int) -> Written:
    written = Written()
    with (
        Progress(f"streaming {TOPIC}", count, TOPIC) as progress,
        open_producer(bootstrap, PATIENCE_SECONDS, batch_size=64 * 1024) as producer,
    ):
        began = time.perf_counter()
        deliveries: list[Delivery] = []
        for key, value in sample_orders(count):
            deliveries.append(producer.send(TOPIC, value, key))
            if not len(deliveries) % 1000:
                progress.step(1000, producer.metrics()["bytes_sent"] - written.size_bytes)
                written.size_bytes = producer.metrics()["bytes_sent"]
        producer.flush()
        written.seconds = time.perf_counter() - began
        written.size_bytes = producer.metrics()["bytes_sent"]
        for delivery in deliveries:
            delivery.result()
        written.records = len(deliveries)
    return written


def _read(bootstrap: str) -> ReadBack:
    spec = parse_offset_spec("start", Timestamp(0))
    with open_admin(bootstrap, START_SECONDS) as admin:
        places = places_of(admin, TOPIC, None)
        ranges = resolve_ranges(admin, places, spec, read_committed=False, stop_at_end=True)
    found = ReadBack(Counter(), 0, 0, 0.0, {})
    total = sum((one.end or 0) - one.start for one in ranges.values())
    began = time.perf_counter()
    with (
        open_reader(bootstrap, START_SECONDS) as consumer,
        Progress(f"reading {TOPIC}", total, TOPIC) as progress,
    ):
        reader = RangeReader(consumer, ranges)
        while not reader.finished:
            records = reader.poll()
            for record in records:
                order = json.loads(record.value or b"{}")
                found.statuses[order["status"]] += 1
                found.total_cents += order["total_cents"]
            progress.step(len(records))
        found.size_bytes = consumer.metrics()["bytes_fetched"]
    found.seconds = time.perf_counter() - began
    found.offsets = {place.partition: (one.start, one.end or 0) for place, one in ranges.items()}
    return found


def _summarise(bootstrap: str, written: Written, found: ReadBack) -> None:
    click.echo("")
    click.echo(
        f"{written.records:,} orders written, {_pace(written.records, written.size_bytes, written.seconds)}"
    )
    click.echo(f"{found.records:,} orders read back, {_pace(found.records, found.size_bytes, found.seconds)}")
    click.echo("")
    for status, count in found.statuses.most_common():
        click.echo(f"  {status:<10} {count:>8,}  {count / max(1, found.records):6.1%}")
    click.echo(f"  {'turnover':<10} {found.total_cents / 100:>8,.2f}")
    click.echo("")
    for partition, (start, end) in sorted(found.offsets.items()):
        click.echo(f"  {TOPIC}-{partition}  offsets {start:,} to {end - 1:,}")
    click.echo("")


def _pace(records: int, size_bytes: int, seconds: float) -> str:
    through = Throughput(records, size_bytes, seconds)
    rates = f"{through.records_per_second:,.0f}/s, {through.megabytes_per_second:.1f} MB/s"
    return f"{size_text(size_bytes)} in {seconds:.2f} s ({rates})"


def _serve_on(broker: "subprocess.Popen[str]", bootstrap: str) -> None:
    program = os.path.join(os.path.dirname(sys.executable), "everlog")
    shown = os.path.relpath(program) if os.path.exists(program) else f"{sys.executable} -m everlog.cli"
    flag = "" if bootstrap.endswith(":9092") else f" -b {bootstrap}"
    click.echo(f"The broker goes on serving at {bootstrap}. Try, in another terminal:")
    click.echo(f"  {shown} topic describe {TOPIC}{flag}")
    click.echo(f"  {shown} consume {TOPIC} --offset -5:end --format '%p %o %k %v\\n'{flag}")
    click.echo(f"  echo hello | {shown} produce {TOPIC}{flag}")
    click.echo(f"  {shown} perf produce perf-test{flag}")
    click.echo("or any Kafka client. Ctrl-C stops it.")
    sys.stdout.flush()
    if broker.wait() != 0:
        raise EverlogError(f"the broker ended by itself with exit code {broker.returncode}")


if __name__ == "__main__":
    main()
