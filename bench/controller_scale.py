"""The controller's core with very many partitions: memory, replay, failover, and what one command costs.

    python bench/controller_scale.py --partitions 1000000

No disk and no network: what is measured is the CPU time that the event loop of the active controller would be
busy for.
"""

import argparse
import gc
import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from everlog.controller.balance import BalanceLeaders
from everlog.controller.brokers import FenceBroker, InitializeCluster, RegisterBroker, UnfenceBroker
from everlog.controller.decisions import Command, Decision, More, Standing
from everlog.controller.heartbeats import Beat
from everlog.controller.isr import AlterPartitions, IsrMember, IsrProposal
from everlog.controller.partition_changes import PartitionRef
from everlog.controller.topics import CreateTopics, NewTopic
from everlog.metadata.delta import Delta, apply
from everlog.metadata.image import EMPTY_IMAGE, ClusterImage, Endpoint
from everlog.metadata.records import decode_record, encode_record
from everlog.model.ids import BrokerId, Offset, Uuid
from everlog.model.settings import broker_settings
from everlog.sim.chance import SimRandom
from everlog.wire.messages.partition_record import PartitionRecord
from everlog.wire.messages.topic_record import TopicRecord

R = TypeVar("R")
SETTINGS = broker_settings(
    {
        "node.id": "1",
        "process.roles": "broker,controller",
        "min.insync.replicas": "2",
        "max.partitions": "2000000000",
    }
)
RANDOM = SimRandom("scale")


def resident_bytes() -> int:
    """How much memory this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def directory_of(broker: int) -> Uuid:
    """The one log directory of a broker."""
    return Uuid(broker.to_bytes(16, "big").replace(b"\0", b"\1", 1))


class Core:
    """An image, and commands decided, encoded and applied as the controller does it."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.bytes = 0

    def decide(self, command: Command[R]) -> Decision[R]:
        """Decide against the image as it is."""
        return command.decide(Standing(self.image, SETTINGS, RANDOM))

    def do(self, command: Command[R]) -> R:
        """Decide, encode the records and apply them."""
        decision = self.decide(command)
        self.bytes += sum(len(encode_record(record)) for record in decision.records)
        self.image = apply(self.image, decision.records, 1)
        return decision.reply

    def timed(self, command: Command[R]) -> tuple[R, float]:
        """The reply, and the seconds it took."""
        start = time.process_time()
        reply = self.do(command)
        return reply, time.process_time() - start


def a_log(core: Core, brokers: int, partitions: int, per_topic: int) -> list[bytes]:
    """The records of so many partitions with three replicas each, as they lie in a snapshot."""
    values: list[bytes] = []
    for start in range(0, partitions, per_topic):
        topic_id = Uuid((start + 1000).to_bytes(16, "big"))
        values.append(encode_record(TopicRecord(name=f"topic-{start // per_topic}", topic_id=topic_id)))
        for number in range(min(per_topic, partitions - start)):
            first = (start + number) % brokers
            replicas = [(first + step) % brokers + 1 for step in (0, 1, 2)]
            values.append(
                encode_record(
                    PartitionRecord(
                        partition_id=number,
                        topic_id=topic_id,
                        replicas=replicas,
                        isr=replicas,
                        leader=replicas[0],
                        directories=[directory_of(one) for one in replicas],
                    )
                )
            )
    return values


def replayed(values: list[bytes], image: ClusterImage) -> ClusterImage:
    """The image after the records."""
    delta = Delta(image)
    end = image.end_offset
    for value in values:
        delta.replay(decode_record(value), end)
        end = Offset(end + 1)
    return delta.finish(end, 1)[0]


def repeated(core: Core, command: Callable[[], Command[object]], times: int = 20) -> float:
    """The median of the seconds that a command takes."""
    return sorted(core.timed(command())[1] for _ in range(times))[times // 2]


def measure(partitions: int, per_topic: int, brokers: int) -> dict[str, object]:
    """All figures."""
    core = Core(EMPTY_IMAGE)
    core.do(InitializeCluster())
    endpoint = (Endpoint("PLAINTEXT", "127.0.0.1", 9092, 0),)
    for number in range(1, brokers + 1):
        register = RegisterBroker(BrokerId(number), RANDOM.uuid(), endpoint, (directory_of(number),))
        core.do(UnfenceBroker(BrokerId(number), core.do(register)))
    values = a_log(core, brokers, partitions, per_topic)
    gc.collect()
    before = resident_bytes()
    start = time.process_time()
    core.image = replayed(values, core.image)
    replay_s = time.process_time() - start
    gc.collect()
    held = resident_bytes() - before
    log_bytes = sum(map(len, values))
    del values

    one = core.image.brokers[BrokerId(1)]
    beat = Beat(one.id, one.epoch, core.image.end_offset)
    figures: dict[str, object] = {
        "partitions": partitions,
        "topics": len(core.image.topics),
        "brokers": brokers,
        "held_by_one_broker": partitions * 3 // brokers,
        "snapshot_bytes": log_bytes,
        "replay_s": replay_s,
        "image_bytes": held,
        "heartbeat_ms": repeated(core, lambda: beat) * 1e3,
        "alter_partition_ms": repeated(core, lambda: an_isr_change(core)) * 1e3,
        "create_topic_ms": repeated(
            core, lambda: CreateTopics((NewTopic(f"new-{core.image.end_offset}", 3, 3),))
        )
        * 1e3,
        "balance_check_ms": repeated(core, BalanceLeaders, 5) * 1e3,
    }
    figures.update(failover(core, BrokerId(1)))
    return figures


def an_isr_change(core: Core) -> AlterPartitions:
    """A leader takes a follower out, or in again."""
    topic = next(iter(core.image.topics.values()))
    partition = topic.partitions[0]
    leader = core.image.brokers[BrokerId(partition.leader)]
    isr = partition.replicas[:2] if len(partition.isr) == 3 else partition.replicas
    return AlterPartitions(
        leader.id,
        leader.epoch,
        (
            IsrProposal(
                PartitionRef(topic.id, 0),
                partition.leader_epoch,
                partition.partition_epoch,
                tuple(IsrMember(BrokerId(one)) for one in isr),
            ),
        ),
    )


def failover(core: Core, broker: BrokerId) -> dict[str, object]:
    """Fence a broker, and let it come back after a clean stop."""
    epoch = core.image.brokers[broker].epoch
    command = FenceBroker(broker, epoch)
    slices: list[float] = []
    core.bytes = 0
    while True:
        reply, seconds = core.timed(command)
        slices.append(seconds)
        if not isinstance(reply, More):
            break
        command = replace(command, since=reply)
    fenced_bytes = core.bytes
    return {
        "fence_s": sum(slices),
        "fence_first_slice_ms": slices[0] * 1e3,
        "fence_longest_slice_ms": max(slices) * 1e3,
        "fence_slices": len(slices),
        "fence_log_bytes": fenced_bytes,
        "unfence_ms": core.timed(UnfenceBroker(broker, epoch))[1] * 1e3,
    }


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1_000_000)
    parser.add_argument("--per-topic", type=int, default=100)
    parser.add_argument("--brokers", type=int, default=9)
    given = parser.parse_args()
    json.dump(measure(given.partitions, given.per_topic, given.brokers), sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
