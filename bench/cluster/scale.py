"""Three brokers with very many partitions: creation, the loss of a broker, its return, a restart of all.

    python -m bench.cluster.scale --topics 1000 --partitions 10
    python -m bench.cluster.scale --topics 1000 --partitions 10 --records 1

With `--records`, each partition gets that many before the last stop, which then has all of them to sync.
Times are wall-clock seconds; each is a single sample. What the controller alone costs with a million
partitions is measured by `python bench/controller_scale.py`.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import everlog
from everlog.client.core.metadata import Partition

TOPICS_A_REQUEST = 50
LIMIT_S = 600.0


def partitions_of(bootstrap: str) -> list[Partition]:
    """All partitions of all topics, as the brokers at `bootstrap` tell."""
    with everlog.Admin(bootstrap) as admin:
        topics = admin.describe_topics().values()
    return [partition for topic in topics for partition in topic.partitions.values()]


def seconds_until(bootstrap: str, holds: Callable[[list[Partition]], bool], began: float) -> float:
    """How long it took until something holds of the partitions; they are looked at again and again."""
    while not holds(partitions_of(bootstrap)):
        assert time.monotonic() - began < LIMIT_S, f"not reached within {LIMIT_S:g} s"
    return time.monotonic() - began


def fill(bootstrap: str, topics: int, partitions: int, records: int) -> None:
    """Put records into all partitions; return when all replicas in sync have them."""
    with everlog.Producer(bootstrap, linger_ms=50) as producer:
        for topic in range(topics):
            for partition in range(partitions):
                for _ in range(records):
                    producer.send(f"topic-{topic}", b"a record", partition=partition)
        producer.flush()


def measure(topics: int, partitions: int, records: int, home: Path) -> dict[str, float]:
    """Run all steps and return the seconds of each."""
    found: dict[str, float] = {}
    count = topics * partitions

    def all_in_sync(known: list[Partition]) -> bool:
        return len(known) == count and all(len(one.isr) == 3 for one in known)

    cluster = everlog.Cluster(
        brokers=3, processes=True, directory=home, settings={"max.partitions": count * 2}
    )
    began = time.monotonic()
    with cluster:
        found["start of an empty cluster"] = time.monotonic() - began
        began = time.monotonic()
        with everlog.Admin(cluster.bootstrap_servers) as admin:
            for first in range(0, topics, TOPICS_A_REQUEST):
                names = [f"topic-{number}" for number in range(first, min(first + TOPICS_A_REQUEST, topics))]
                admin.create_topics([everlog.NewTopic(name, partitions, 3) for name in names], wait=False)
        found["creation"] = time.monotonic() - began
        found["creation, all in sync"] = seconds_until(cluster.bootstrap_servers, all_in_sync, began)
        dead = cluster.brokers[0]
        others = ",".join(broker.bootstrap for broker in cluster.brokers[1:])
        began = time.monotonic()
        dead.kill()
        found["a broker is killed, all led by others"] = seconds_until(
            others, lambda known: all(one.leader not in (None, -1, dead.node_id) for one in known), began
        )
        began = time.monotonic()
        dead.start()
        found["it comes back, serving"] = time.monotonic() - began
        found["it comes back, all in sync"] = seconds_until(others, all_in_sync, began)
        if records:
            began = time.monotonic()
            fill(cluster.bootstrap_servers, topics, partitions, records)
            found["a record in each, or more"] = time.monotonic() - began
        began = time.monotonic()
    found["stop of all"] = time.monotonic() - began
    began = time.monotonic()
    with cluster:
        found["restart of all, serving"] = time.monotonic() - began
        found["restart of all, all in sync"] = seconds_until(cluster.bootstrap_servers, all_in_sync, began)
    return found


def main() -> None:
    """Measure, and print a line for each step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=10, help="of each topic")
    parser.add_argument("--records", type=int, default=0, help="in each partition, before the last stop")
    parser.add_argument("--json", type=Path, help="write the seconds here")
    given = parser.parse_args()
    with TemporaryDirectory(prefix="everlog-scale-") as home:
        found = measure(given.topics, given.partitions, given.records, Path(home))
    for step, seconds in found.items():
        print(f"{step:40} {seconds:8.2f} s")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
