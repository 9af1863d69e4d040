"""How long a broker takes to read its groups back after a kill, and how long it is deaf meanwhile (C2, C5).

`python -m bench.group_load --groups 10000 --offsets 10 --commits 1` writes that many groups with that many
offsets each, committed so many times, and starts a node on the files that were left. Reported are the seconds
until all groups are served, and the longest time that the loop was kept from others.
"""

import argparse
import gc
import json
import tempfile
from pathlib import Path
from time import perf_counter, process_time

from everlog.coordinator.group.offsets import CommitOffsets, NewOffset
from everlog.coordinator.partitions import OFFSETS_TOPIC
from everlog.edge.clock import SystemClock
from everlog.edge.disk import RealFiles
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import Uuid
from everlog.model.settings import broker_settings
from everlog.model.settings.listeners import Listener, SecurityProtocol
from everlog.node.node import Node
from everlog.sim.alarm import SimAlarm
from everlog.sim.aside import SimAside
from everlog.sim.chance import SimRandom

_TOPIC = "orders"
_GC_THRESHOLDS = (100_000, 50, 1_000)


class BenchNode:
    """A node on real files without a server, driven by hand."""

    def __init__(self, directory: Path) -> None:
        self.clock = SystemClock()
        self.aside = SimAside()
        self.alarm = SimAlarm()
        settings = broker_settings(
            {
                "node.id": "1",
                "process.roles": "broker,controller",
                "listeners": "PLAINTEXT://127.0.0.1:9092",
                "log.dirs": str(directory),
                "disk.reserve.bytes": "0",
            }
        )
        files = RealFiles(1000)
        self.node = Node(settings, files, self.clock, SimRandom("bench"), self.aside, self.alarm)
        outcome: list[object] = []
        listener = Listener("PLAINTEXT", "127.0.0.1", 9092, SecurityProtocol.PLAINTEXT)
        self.node.start([listener], outcome.append)
        self.aside.run_all()
        assert outcome == [None], outcome


def write(directory: Path, groups: int, offsets: int, commits: int) -> None:
    """Leave a directory as a broker that was killed leaves it."""
    bench = BenchNode(directory)
    bench.node.tick(bench.clock.now())
    coordinators = bench.node.broker.coordinators
    made: list[Refused | None] = []
    coordinators.internal_topics.ensure(OFFSETS_TOPIC, made.append)
    bench.aside.run_all()
    assert made == [None], made
    replies: list[list[ErrorCode] | Refused | StorageError] = []
    for at in range(commits):
        for number in range(groups):
            group = f"consumer-group-{number}"
            new = tuple(
                NewOffset(_TOPIC, Uuid(bytes(16)), partition, at, 0, "") for partition in range(offsets)
            )
            coordinators.group_shard(group).offsets.commit(CommitOffsets(group, new), replies.append)
    assert len(replies) == groups * commits
    assert all(isinstance(reply, list) for reply in replies)


def load(directory: Path) -> dict[str, float]:
    """Start on what is there, and drive the node until it serves every group."""
    bench = BenchNode(directory)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    shards = bench.node.broker.coordinators.groups
    began, worked = perf_counter(), process_time()
    ticks: list[float] = []
    while True:
        at = perf_counter()
        bench.node.tick(bench.clock.now())
        ticks.append(perf_counter() - at)
        if shards.all_loaded:
            break
    seconds, cpu_seconds = perf_counter() - began, process_time() - worked
    ticks.sort()
    served = [shard for _, shard in shards.serving()]
    return {
        "groups": sum(len(shard.all_groups()) for shard in served),
        "offsets": sum(
            len(partitions)
            for shard in served
            for group in shard.offsets.store.group_ids()
            for partitions in shard.offsets.store.of_group(group).values()
        ),
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu_seconds, 3),
        "longest_turn_ms": round(ticks[-1] * 1000, 1),
        "turn_p99_ms": round(ticks[int(len(ticks) * 0.99)] * 1000, 1),
    }


def main() -> None:
    """Write, read back, print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--offsets", type=int, default=10, help="offsets of each group")
    parser.add_argument("--commits", type=int, default=1, help="how often each group has committed them")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="everlog-groups-") as directory:
        write(Path(directory), given.groups, given.offsets, given.commits)
        found = load(Path(directory))
    print(json.dumps({"records": given.groups * given.offsets * given.commits, **found}))


if __name__ == "__main__":
    main()
