"""How long it takes to find an offset: in one large segment, and in a partition of many (L3).

`python bench/lookups.py` makes a log of each kind in a temporary directory and prints the times of random
reads, before and after the log was closed and opened again. It takes a minute or two.
"""

import random
import sys
import tempfile
import time
from pathlib import Path

from everlog.edge.chance import SystemRandom
from everlog.edge.clock import SystemClock
from everlog.edge.disk import RealFiles
from everlog.log.partition import Origin, PartitionLog, World
from everlog.log.recovery import Opening
from everlog.log.settings import LogSettings
from everlog.model.ids import LeaderEpoch, Offset
from everlog.model.topics import TopicPartition
from everlog.records.batch import batch_at
from everlog.records.builder import NewRecord, build_batch

LOOKUPS = 5_000
PARTITION = TopicPartition("lookups", 0)


def filled(path: str, settings: LogSettings, batches: int, value_bytes: int) -> PartitionLog:
    """A log of so many batches of one record each."""
    world = World(RealFiles(1_000), SystemClock(), SystemRandom())
    log = PartitionLog(world, path, PARTITION, settings, Opening())
    wall = world.clock.wall()
    batch = build_batch([NewRecord(b"key", bytes(value_bytes), (), wall)])
    for _ in range(batches):
        batch[:8] = bytes(8)  # The last append stamped its offset here; clients send 0.
        log.append(batch_at(batch), LeaderEpoch(0), wall, Origin.CLIENT)
    return log


def report(title: str, log: PartitionLog) -> None:
    """Print percentiles of reads at random offsets."""
    chance = random.Random(1)
    times: list[float] = []
    for _ in range(LOOKUPS):
        offset = Offset(chance.randrange(log.end_offset))
        began = time.perf_counter()
        log.read(offset, 1, log.end_offset)
        times.append((time.perf_counter() - began) * 1e6)
    times.sort()
    p50, p99, most = times[LOOKUPS // 2], times[LOOKUPS * 99 // 100], times[-1]
    print(f"{title:44} p50 {p50:7.0f} us   p99 {p99:7.0f} us   max {most:8.0f} us")


def measure(title: str, settings: LogSettings, batches: int, value_bytes: int) -> None:
    """Make one kind of log and report on it, open and opened again after a clean stop."""
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / str(PARTITION))
        Path(path).mkdir()
        log = filled(path, settings, batches, value_bytes)
        report(f"{title}, {log.segment_count} segments", log)
        end = log.end_offset
        plan = log.closing_plan()
        assert plan is not None
        plan.run()
        log.abandon()
        world = World(RealFiles(1_000), SystemClock(), SystemRandom())
        again = PartitionLog(world, path, PARTITION, settings, Opening(clean=True, recovery_point=end))
        report(f"{title}, after a restart", again)
        again.abandon()


def main() -> None:
    """Both kinds; a number shortens them for a quick look."""
    share = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    measure("1 GiB of 1 KB batches", LogSettings(), 1_000_000 // share, 950)
    measure("many small segments", LogSettings(segment_bytes=1_100), 10_000 // share, 950)


if __name__ == "__main__":
    main()
