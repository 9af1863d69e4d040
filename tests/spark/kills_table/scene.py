"""A topic that is fed, a table that it is kept in, and the count of both."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import everlog
from everlog.spark.table.options import read_options, spec_for_reading
from everlog.tables.table import open_table
from tests.spark.kills_table.job import Job

KEYS = 37
PARTITIONS = 2


@dataclass
class Scene:
    """One table and what went into its topic; records are numbered from 0."""

    job: Job
    fed: int = 0
    kills: Counter[str] = field(default_factory=lambda: Counter[str]())

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

    def arm(self, victim: str, moment: str) -> None:
        """Have the next process that comes by the moment die: `worker` alone, or the `driver` with it."""
        Path(self.job.kill_file).write_text(f"{victim} {moment}")

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

    def problem(self) -> str | None:
        """What is wrong with the table, given all that was fed; None if each input is there once."""
        rows = self.rows()
        name = f"{self.job.table_format} {self.job.mode}"
        if self.job.mode == "upsert":
            expected = {number % KEYS: number for number in range(self.fed)}
            found = {int(row["key"]): int(row["id"]) for row in rows}
            if len(rows) != len(expected) or found != expected:
                return (
                    f"{name}: {len(rows)} rows for {len(expected)} keys, newest of each: {found == expected}"
                )
            return None
        counts = Counter(int(row["id"]) for row in rows)
        twice = [number for number, count in counts.items() if count > 1]
        missing = [number for number in range(self.fed) if number not in counts]
        if twice or missing or len(counts) != self.fed:
            return (
                f"{name}: of {self.fed} records {len(missing)} are missing (first {missing[:3]}), "
                f"{len(twice)} are there more than once (first {twice[:3]})"
            )
        return None
