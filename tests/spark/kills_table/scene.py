"""A topic that is fed, a table that it is kept in, and the count of both."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import everlog
from everlog.spark.table.options import read_options, spec_for_reading
from everlog.tables.table import open_table
from tests.spark.kills.ledger import Count
from tests.spark.kills_table.job import Job

KEYS = 37
PARTITIONS = 2


@dataclass
class Scene:
    """One table and what went into its topic; records are numbered from 0."""

    job: Job
    fed: int = 0

    @classmethod
    def make(cls, bootstrap: str, folder: Path, topic: str, table_format: str, mode: str) -> "Scene":
        """A fresh topic for a table below a folder."""
        with everlog.Admin(bootstrap) as admin:
            admin.create_topics([everlog.NewTopic(topic, PARTITIONS)])
        return cls.on(bootstrap, folder, topic, table_format, mode)

    @classmethod
    def on(cls, bootstrap: str, folder: Path, topic: str, table_format: str, mode: str) -> "Scene":
        """A topic that is there, for a table below a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        job = Job(
            bootstrap=bootstrap,
            topic=topic,
            table_format=table_format,
            mode=mode,
            location=str(folder / "lake" / f"{table_format}_{mode}"),
            checkpoint=str(folder / f"checkpoint-{table_format}-{mode}"),
            kill_file=str(folder / f"kill-{table_format}-{mode}"),
        )
        return cls(job)

    def feed(self, count: int) -> None:
        """Send so many records more, those of one key to one partition."""
        with everlog.Producer(self.job.bootstrap, acks="all") as producer:
            for number in range(self.fed, self.fed + count):
                key = number % KEYS
                value = json.dumps({"id": number, "key": key}).encode()
                producer.send(self.job.topic, value, str(key).encode())
            producer.flush()
        self.fed += count

    def order(self, moment: str, victims: Sequence[str]) -> None:
        """Have these die when a process comes by the moment: `self`, the `java` above it, or any process."""
        fresh = Path(f"{self.job.kill_file}.new")
        fresh.write_text(" ".join([moment, *victims]))
        fresh.rename(self.job.kill_file)

    def fired(self) -> bool:
        """Whether somebody died of what was armed; disarms it if not."""
        path = Path(self.job.kill_file)
        waiting = path.exists()
        path.unlink(missing_ok=True)
        return not waiting

    def rows(self) -> list[dict[str, Any]]:
        """What the table holds."""
        spec = spec_for_reading(read_options(self.job.sink))
        found: list[dict[str, Any]] = open_table(spec, create=False).read(["id", "key"]).to_pylist()
        return found

    def count(self, fed: int) -> Count:
        """Compare the table with so many records of its topic; what is not the newest of a key is lost."""
        rows = self.rows()
        if self.job.mode == "upsert":
            expected = {number % KEYS: number for number in range(fed)}
            found = {int(row["key"]): int(row["id"]) for row in rows}
            losses = sum(found.get(key) != number for key, number in expected.items())
            return Count(fed, len(rows), len(rows) - len(expected.keys() & found.keys()), losses)
        counts = Counter(int(row["id"]) for row in rows)
        losses = sum(number not in counts for number in range(fed))
        return Count(fed, len(rows), len(rows) - (fed - losses), losses)

    def problem(self) -> str | None:
        """What is wrong with the table, given all that was fed; None if each input is there once."""
        count = self.count(self.fed)
        return None if count.right else f"{self.job.table_format} {self.job.mode}: {count}"
