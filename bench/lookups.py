"""How long it takes to find an offset, or a time: in one large segment, and in a partition of many (L3, L7).

`python bench/lookups.py` makes a log of each kind in a temporary directory and prints the times of random
lookups, before and after the log was closed and opened again. It takes a minute or two. With `--check` it
ends with 1 if the p99 of any kind is a millisecond or more.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from everlog.edge.chance import SystemRandom
from everlog.edge.clock import SystemClock
from everlog.edge.disk import RealFiles
from everlog.log.partition import Origin, PartitionLog, World
from everlog.log.recovery import Opening
from everlog.log.settings import LogSettings
from everlog.model.ids import LeaderEpoch, Offset, Timestamp
from everlog.model.topics import TopicPartition
from everlog.records.batch import batch_at
from everlog.records.builder import NewRecord, build_batch

LOOKUPS = 5_000
LIMIT_US = 1_000
STEP_MS = 10
"""Between the times of two records: a million of them span less than the week that retention keeps."""
FIRST_MS = time.time_ns() // 1_000_000 - 1_000_000 * STEP_MS
PARTITION = TopicPartition("lookups", 0)


def filled(path: str, settings: LogSettings, batches: int, value_bytes: int) -> PartitionLog:
    """A log of so many batches of one record each."""
    world = World(RealFiles(1_000), SystemClock(), SystemRandom())
    log = PartitionLog(world, path, PARTITION, settings, Opening())
    wall = world.clock.wall()
    value = bytes(value_bytes)
    for number in range(batches):
        batch = build_batch([NewRecord(b"key", value, (), time_of(number))])
        log.append(batch_at(batch), LeaderEpoch(0), wall, Origin.CLIENT)
    return log


def time_of(offset: int) -> Timestamp:
    """The time of the record at an offset."""
    return Timestamp(FIRST_MS + offset * STEP_MS)


def report(title: str, log: PartitionLog) -> list[float]:
    """Print percentiles of lookups of random offsets and times; returns the p99 of each."""
    end = log.end_offset

    def by_offset(offset: int) -> None:
        assert log.read(Offset(offset), 1, end) is not None

    def by_time(offset: int) -> None:
        found = log.offset_for_time(time_of(offset), end)
        assert found is not None
        assert found.offset == offset

    return [
        _report(f"{title}, {what}", look, end) for what, look in (("offset", by_offset), ("time", by_time))
    ]


def _report(title: str, look: Callable[[int], None], end: int) -> float:
    chance = random.Random(1)
    times: list[float] = []
    for _ in range(LOOKUPS):
        offset = chance.randrange(end)
        began = time.perf_counter()
        look(offset)
        times.append((time.perf_counter() - began) * 1e6)
    times.sort()
    p50, p99, most = times[LOOKUPS // 2], times[LOOKUPS * 99 // 100], times[-1]
    print(f"{title:52} p50 {p50:7.0f} us   p99 {p99:7.0f} us   max {most:8.0f} us")
    return p99


def measure(title: str, settings: LogSettings, batches: int, value_bytes: int) -> list[float]:
    """Make one kind of log and report on it, open and opened again after a clean stop; returns all p99."""
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / str(PARTITION))
        Path(path).mkdir()
        log = filled(path, settings, batches, value_bytes)
        found = report(f"{title}, {log.segment_count} segments", log)
        end = log.end_offset
        plan = log.closing_plan()
        assert plan is not None
        plan.run()
        log.abandon()
        world = World(RealFiles(1_000), SystemClock(), SystemRandom())
        again = PartitionLog(world, path, PARTITION, settings, Opening(clean=True, recovery_point=end))
        found += report(f"{title}, after a restart", again)
        again.abandon()
        return found


def main() -> int:
    """Both kinds of log; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument(
        "share", nargs="?", type=int, default=1, help="make logs of one n-th, for a quick look"
    )
    parser.add_argument("--check", action="store_true", help="fail where a p99 is a millisecond or more")
    options = parser.parse_args()
    found = measure("1 GiB of 1 KB batches", LogSettings(), 1_000_000 // options.share, 950)
    found += measure("many small segments", LogSettings(segment_bytes=1_100), 10_000 // options.share, 950)
    if options.check and max(found) >= LIMIT_US:
        print(f"the slowest p99 is {max(found):.0f} us, expected less than {LIMIT_US} us")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
