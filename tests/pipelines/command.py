"""`everlog pipeline` as users have it, a process for each command; and what topics have in the end."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import everlog

PATIENCE_S = 900.0
MASTER = "local[2]"


@dataclass(frozen=True)
class Piped:
    """A project, the cluster that it reads and writes, and what its commands have in their environment."""

    root: Path
    bootstrap: str
    added: dict[str, str]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, **self.added, "EVERLOG_BOOTSTRAP": self.bootstrap}

    @property
    def storage(self) -> Path:
        """Where its tables and checkpoints are."""
        return self.root / "storage"

    def command(self, name: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "everlog.cli.main", "pipeline", name, str(self.root), *arguments]

    def call(self, name: str, *arguments: str) -> dict[str, Any]:
        """Run a command that does what it should; its answer."""
        done = subprocess.run(
            self.command(name, *arguments, "--json"), env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{name} {arguments}\n{done.stdout}{done.stderr}{self.log()}"
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def run(self, *arguments: str, master: str = MASTER) -> dict[str, dict[str, Any]]:
        """Run it once, to the end of what is there; what the summary says of each flow."""
        summary = self.call("run", "--master", master, *arguments)
        assert summary["state"] == "completed"
        assert "FAILED" not in {flow["state"] for flow in summary["flows"]}
        return {flow["flow"]: flow for flow in summary["flows"]}

    def run_at_a_terminal(self, *arguments: str) -> tuple[list[str], str]:
        """Run it once, as somebody who watches it: lines that were drawn one over the other; the summary."""
        ours, theirs = os.openpty()
        with (
            os.fdopen(ours, "rb", buffering=0) as screen,
            subprocess.Popen(
                self.command("run", "--master", MASTER, *arguments),
                env={**self.environment, "COLUMNS": "300"},
                stdout=subprocess.PIPE,
                stderr=theirs,
                text=True,
            ) as process,
        ):
            os.close(theirs)
            drawn = b""
            with contextlib.suppress(OSError):  # What a terminal says when its last writer has closed it.
                while piece := screen.read(65536):
                    drawn += piece
            summary, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, summary + self.log()
        return re.split(r"[\r\n]+(?:\x1b\[2K)?", drawn.decode()), summary

    def refused(self, name: str, *arguments: str) -> str:
        """Run a command that fails; the one line that it says, with no stack beside it."""
        done = subprocess.run(
            self.command(name, *arguments), env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 1, done.stdout + done.stderr
        [line] = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        said = done.stderr + done.stdout
        assert not [
            word for word in ("Traceback", "\tat ", "Exception:", "org.apache.spark") if word in said
        ], said
        return line.removeprefix("error: ")

    @contextlib.contextmanager
    def for_ever(self, *arguments: str) -> Generator["subprocess.Popen[str]"]:
        """Run it with `--continuous`; who leaves without having ended it kills it."""
        process = subprocess.Popen(
            self.command("run", "--continuous", "--master", MASTER, "--json", *arguments),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def lags(self) -> dict[str, int | None]:
        """Flow to lag, without Spark."""
        return {flow["flow"]: flow["lag"] for flow in self.call("status")["flows"]}

    def expected(self, name: str) -> list[dict[str, Any]]:
        """The lines of a file of what comes out."""
        text = (self.root / "expected" / f"{name}.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def log(self) -> str:
        """The end of what Spark has said."""
        path = self.storage / "_runs" / "spark.log"
        return path.read_text(errors="replace")[-6000:] if path.is_file() else ""


def wait_until(what: str, holds: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    """Wait for a run that goes on; AssertionError if it ends, or nothing comes of it."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert process.poll() is None, f"the run ended before {what}: {process.communicate()}"
        assert time.monotonic() < deadline, f"not seen within {PATIENCE_S:.0f} s: {what}"
        time.sleep(0.5)


def interrupted(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """End a run as Ctrl-C does; its summary."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, out + err
    found: dict[str, Any] = json.loads(out)
    assert found["state"] == "stopped"
    return found


def produce(bootstrap: str, topic: str, records: Iterable[dict[str, Any]]) -> None:
    """Write records in the shape of a template's data."""
    with everlog.Producer(bootstrap) as producer:
        for record in records:
            value = record["value"]
            text = value if value is None or isinstance(value, str) else json.dumps(value)
            producer.send(
                topic,
                None if text is None else text.encode(),
                record["key"].encode() if "key" in record else None,
                headers=[(key, value.encode()) for key, value in record.get("headers", {}).items()],
                partition=record.get("partition"),
                timestamp=record.get("timestamp"),
            )


def read(bootstrap: str, topic: str) -> list[everlog.ConsumerRecord]:
    """All that is committed in a topic, partition by partition."""
    with everlog.Consumer(
        bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        places = [everlog.TopicPartition(topic, part.index) for part in consumer.partitions_for(topic)]
        consumer.assign(places)
        ends = consumer.end_offsets(*places)
        records: list[everlog.ConsumerRecord] = []
        while any(consumer.position(place) < ends[place] for place in places):
            records += consumer.poll(0.2)
    return sorted(records, key=lambda record: (record.partition, record.offset))


Shape = tuple[str | None, str | None]


def shape(key: str | bytes | None, value: Any) -> Shape:
    """A key and a value so that two that mean the same are equal."""
    text = value.decode() if isinstance(value, bytes) else value
    if isinstance(text, str):
        try:
            text = json.loads(text)
        except ValueError:
            pass
    named = key.decode() if isinstance(key, bytes) else key
    return named, text if text is None or isinstance(text, str) else json.dumps(text, sort_keys=True)


def assert_holds(bootstrap: str, topic: str, expected: Iterable[dict[str, Any]]) -> None:
    """The topic has these records and no others, each as often as expected."""
    found = Counter(shape(record.key, record.value) for record in read(bootstrap, topic))
    assert found == Counter(shape(record.get("key"), record["value"]) for record in expected)


def lag_of(bootstrap: str, group: str) -> int:
    """How many records a group has not read yet; AssertionError if it has committed nothing."""
    with everlog.Admin(bootstrap) as admin:
        lags = admin.group_lag(group)
    assert lags, f"group {group} has committed nothing"
    return sum(lag.lag or 0 for lag in lags)
