"""How long it takes to find an offset, or a time: in one large segment, and in a partition of many (L3, L7).

`python bench/lookups.py` makes a log of each kind in a temporary directory and prints the times of random
lookups and of that for the largest timestamp, before and after the log was closed and opened again, and that
of the very first one by time. After a restart that one looks at every segment before the one that it finds,
in turns between which a broker serves others; how long these take is shown, one and all together. It takes a
minute or two. With `--check` it ends with 1 if the p99 of any kind, or a first lookup behind its turns, takes
a millisecond or more, or the p90 of turns twice what a broker allows.
"""

import argparse
import gc
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from everlog.broker.slices import SLICE_MS
from everlog.edge.chance import SystemRandom
from everlog.edge.clock import SystemClock
from everlog.edge.disk import RealFiles
from everlog.log.partition import Origin, PartitionLog, World
from everlog.log.recovery import Opening
from everlog.log.settings import LogSettings
from everlog.model.ids import LeaderEpoch, Offset, Timestamp
from everlog.model.topics import TopicPartition
from everlog.node.run import GC_THRESHOLDS
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
    """Print the first lookup by time and percentiles of others; returns that and the p99 of each kind."""
    end = log.end_offset
    turns: list[float] = []
    first: list[float] = []
    while _timed(turns, lambda: log.learn_times(None, _a_slice())) is False:
        pass
    _timed(first, lambda: log.offset_for_time(time_of(end - 1), end))
    _timed(first, lambda: log.offset_of_max_timestamp(end))
    print(
        f"{title + ', first by time':52} {max(first):7.0f} us, "
        f"after {len(turns)} turns of {_most(turns):.0f} us (p90), {sum(turns) / 1000:.0f} ms in all"
    )
    slow = [_most(turns)] if _most(turns) >= 2_000 * SLICE_MS else []

    def by_offset(offset: int) -> None:
        assert log.read(Offset(offset), 1, end) is not None

    def by_time(offset: int) -> None:
        found = log.offset_for_time(time_of(offset), end)
        assert found is not None
        assert found.offset == offset

    def of_largest(_: int) -> None:
        found = log.offset_of_max_timestamp(end)
        assert found is not None
        assert found.offset == end - 1

    kinds = (("offset", by_offset), ("time", by_time), ("largest time", of_largest))
    return [*slow, max(first), *(_report(f"{title}, {what}", look, end) for what, look in kinds)]


def _most(turns: list[float]) -> float:
    """What nine of ten turns stay below: they are few, and others may use the machine in one of them."""
    return sorted(turns)[len(turns) * 9 // 10]


def _timed(times: list[float], what: Callable[[], object]) -> object:
    began = time.perf_counter()
    found = what()
    times.append((time.perf_counter() - began) * 1e6)
    return found


def _a_slice() -> Callable[[], bool]:
    until = time.perf_counter() + SLICE_MS / 1000
    return lambda: time.perf_counter() >= until


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
        gc.collect()
        gc.freeze()  # What was there before lies far behind a broker that has been started, too.
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
    parser.add_argument("--check", action="store_true", help="fail where one is too slow, see above")
    options = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)
    found = measure("1 GiB of 1 KB batches", LogSettings(), 1_000_000 // options.share, 950)
    found += measure("many small segments", LogSettings(segment_bytes=1_100), 10_000 // options.share, 950)
    if options.check and max(found) >= LIMIT_US:
        print(f"the slowest is {max(found):.0f} us, expected less than {LIMIT_US} us")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
