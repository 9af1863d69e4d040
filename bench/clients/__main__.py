"""`python -m bench.clients`: run the programs in turn, print the tables, keep the samples."""

import itertools
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.brokers import KINDS, Broker, Kind
from bench.clients import child, report
from bench.clients.jobs import WORKS, Job, Program, Work
from bench.clients.readers import READERS
from bench.clients.samples import Results, Sample
from bench.machine import QUIET_CORES, ForeignCpu, in_quiet, this_machine, wait_quiet
from bench.memory import BackedMemory
from bench.runner import free_port_pair

_PARTITIONS = 4
_FULL, _QUICK = 400_000_000, 100_000_000
"""Bytes of values in a sample, before a program's share."""
_READ_SHARE = 3.0
"""Reading is quicker, and more of it is needed: librdkafka has 64 MB at hand when the first record comes."""
_LEAST_RECORDS = 2_000

_WARM_UP_RECORDS = 200_000
_TOPIC_LIMIT_S = 60.0
_numbers = itertools.count(1)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="A quarter of the records and two repeats: some minutes.")
@click.option("--repeats", type=click.IntRange(1), help="Samples of each program [5; quick: 2].")
@click.option("--only", multiple=True, metavar="TEXT", help="Programs whose name contains this.")
@click.option("--work", "works", multiple=True, type=click.Choice([work.name for work in WORKS]))
@click.option("--size", "sizes", multiple=True, type=int, help="Bytes of a value [100 and 1000].")
@click.option("--brokers", default="everlog,kafka", show_default=True, help="Which brokers to run.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Where the samples are kept.")
@click.option(
    "--render", type=click.Path(path_type=Path, exists=True), help="Run nothing; report on kept samples."
)
@click.option("--quiet-timeout", default=30.0, show_default=True, help="Seconds to wait for a quiet machine.")
@click.option("--check", is_flag=True, help="Exit with 1 if a floor is missed, or a sample was not quiet.")
def main(
    quick: bool,
    repeats: int | None,
    only: tuple[str, ...],
    works: tuple[str, ...],
    sizes: tuple[int, ...],
    brokers: str,
    json_path: Path | None,
    render: Path | None,
    quiet_timeout: float,
    check: bool,
) -> None:
    """Compare Python clients on this machine: ours, confluent-kafka, kafka-python and aiokafka.

    \b
    Examples:
      python -m bench.clients --quick --brokers everlog
      python -m bench.clients --work read --size 100 --repeats 7 --json clients.json
    """
    signal.signal(signal.SIGTERM, _end)
    if render is not None:
        print(report.text_tables(Results.load(render)))
        return
    kinds = [KINDS[name] for name in brokers.split(",")]
    results = _new_results(kinds)
    course = Course(
        only,
        works,
        sizes or (100, 1000),
        repeats or (2 if quick else 5),
        _QUICK if quick else _FULL,
        quiet_timeout,
    )
    try:
        with tempfile.TemporaryDirectory(prefix="everlog-clients-") as directory:
            for kind in kinds:
                with Broker(kind, port := free_port_pair(), Path(directory, f"{kind.name}-{port}")) as broker:
                    broker.wait_listening()
                    course.run(broker, results)
    finally:
        if json_path is not None:
            results.save(json_path)
    print(report.text_tables(results))
    noisy = any(not sample.quiet for sample in results.samples)
    if results.failures or (check and (noisy or report.missed(results))):
        raise SystemExit(1)


class Course:
    """What is to be run on each broker."""

    def __init__(
        self,
        only: tuple[str, ...],
        works: tuple[str, ...],
        sizes: tuple[int, ...],
        repeats: int,
        value_bytes: int,
        quiet_timeout_s: float,
    ) -> None:
        self._only = only
        self._works = [work for work in WORKS if not works or work.name in works]
        self._sizes = sizes
        self._repeats = repeats
        self._value_bytes = value_bytes
        self._quiet_timeout_s = quiet_timeout_s

    def run(self, broker: Broker, results: Results) -> None:
        """Take all samples on one broker, the programs in turn."""
        admin: Any = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}"})
        _say("touching memory")
        with closing(BackedMemory()):
            self._warm_up(broker, admin)
            self._take(broker, admin, results)

    def _take(self, broker: Broker, admin: Any, results: Results) -> None:
        for size in self._sizes:
            for work in self._works:
                programs = [
                    program
                    for program in work.programs
                    if not self._only or any(text in program.name for text in self._only)
                ]
                if work.kind == "send":
                    self._send(broker, admin, work, programs, size, results)
                else:
                    self._read(broker, admin, work, programs, size, results)

    def _warm_up(self, broker: Broker, admin: Any) -> None:
        """A virtual machine that compiles as it goes is asked when it has; the other broker likewise."""
        _say(f"warming {broker.kind.title} up")
        for size in (100, 1000):
            with _topic(admin) as topic:
                sent = Job("everlog send", _bootstrap(broker), topic, _PARTITIONS, _WARM_UP_RECORDS, size)
                child.run(sent)
                child.run(replace(sent, program="everlog poll"))

    def _send(
        self, broker: Broker, admin: Any, work: Work, programs: list[Program], size: int, results: Results
    ) -> None:
        for repeat in range(self._repeats):
            for program in programs:
                with _topic(admin) as topic:
                    job = self._job(broker, program, topic, size)
                    self._sample(broker, work, job, repeat, results)
                broker.wait_deleted(topic)

    def _read(
        self, broker: Broker, admin: Any, work: Work, programs: list[Program], size: int, results: Results
    ) -> None:
        with _topic(admin) as topic:
            # Fewer than are there: a reader that takes many at once has as many to take at the end.
            most = max((program.share for program in programs), default=1.0)
            count = 100_000 + self._count(_READ_SHARE * most, size)
            child.run(Job("everlog send", _bootstrap(broker), topic, _PARTITIONS, count, size))
            for repeat in range(self._repeats):
                for program in programs:
                    job = self._job(broker, program, topic, size)
                    self._sample(broker, work, job, repeat, results)

    def _job(self, broker: Broker, program: Program, topic: str, size: int) -> Job:
        count = self._count(program.share * (_READ_SHARE if program.name in READERS else 1.0), size)
        return Job(program.name, _bootstrap(broker), topic, _PARTITIONS, count, size)

    def _count(self, share: float, size: int) -> int:
        # Large records cost little more than small ones, so half as many bytes of small ones are enough.
        small = 0.5 if size < 500 else 1.0
        return max(_LEAST_RECORDS, int(self._value_bytes * small * share / size))

    def _sample(self, broker: Broker, work: Work, job: Job, repeat: int, results: Results) -> None:
        def take() -> Sample:
            return self._taken(broker, work, job, repeat)

        try:
            results.samples.append(in_quiet(take, lambda sample: sample.foreign_cores))
        except (RuntimeError, OSError, ValueError) as failure:
            results.failures.append(f"{job.program} on {broker.kind.title}: {failure}")
            _say(f"FAILED {results.failures[-1]}")

    def _taken(self, broker: Broker, work: Work, job: Job, repeat: int) -> Sample:
        wait_quiet(broker.pids, QUIET_CORES, self._quiet_timeout_s)
        foreign = ForeignCpu(broker.pids)
        broker_began_s, began = broker.cpu_s(), time.perf_counter()
        outcome = child.run(job)
        # The child's start is ours too, and is not in its figures: about a second of one core.
        start_s = max(0.0, time.perf_counter() - began - outcome.seconds)
        cores = foreign.cores(outcome.cpu_s + start_s)
        sample = Sample(
            broker.kind.name,
            work.name,
            job.size,
            job.program,
            repeat,
            outcome.records,
            float(f"{outcome.per_s:.5g}"),
            float(f"{outcome.cpu_s_per_million:.5g}"),
            float(f"{cores:.3g}"),
            float(f"{(broker.cpu_s() - broker_began_s) / outcome.records * 1e6:.5g}"),
        )
        _say(
            f"{broker.kind.name:8} {job.size:5} B  {job.program:28} {repeat + 1}/{self._repeats} "
            f"{sample.records_per_s:>12,.0f} records/s {sample.cpu_s_per_million:8.3f} CPU s/million"
            f" and {sample.broker_cpu_s_per_million:.3f} of the broker  (foreign {cores:.2f} cores)"
        )
        return sample


@contextmanager
def _topic(admin: Any) -> Generator[str]:
    name = f"clients-{next(_numbers)}"
    deadline = time.monotonic() + _TOPIC_LIMIT_S
    for made in admin.create_topics([NewTopic(name, _PARTITIONS, 1)]).values():
        made.result(_TOPIC_LIMIT_S)
    while len(_led(admin, name)) < _PARTITIONS:
        if time.monotonic() > deadline:
            raise TimeoutError(f"topic {name} has no leaders after {_TOPIC_LIMIT_S:.0f} s")
        time.sleep(0.05)
    try:
        yield name
    finally:
        for gone in admin.delete_topics([name]).values():
            gone.result(_TOPIC_LIMIT_S)


def _led(admin: Any, name: str) -> list[int]:
    topic = admin.list_topics(name, timeout=_TOPIC_LIMIT_S).topics.get(name)
    if topic is None or topic.error is not None:
        return []
    return [index for index, partition in topic.partitions.items() if partition.leader >= 0]


def _bootstrap(broker: Broker) -> str:
    return f"127.0.0.1:{broker.port}"


def _new_results(kinds: list[Kind]) -> Results:
    clients = {name: version(name) for name in ("everlog", "confluent-kafka", "kafka-python", "aiokafka")}
    return Results(
        machine=this_machine(),
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        command="python -m bench.clients " + shlex.join(sys.argv[1:]),
        versions={**{f"{kind.title}, the broker": kind.version() for kind in kinds}, **clients},
    )


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
