"""Health, moves, elections and farewells by the real program, on three brokers; the same on Apache Kafka.

The tests run in the order in which they stand: the last ones take a broker away.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

import everlog
from everlog.admin import ConfigResource, NewTopic, TopicPartition
from tests.cluster.conftest import Trio
from tests.e2e.program import Ran, environment
from tests.e2e.program import everlog as run_everlog

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("cli-cluster")]

Run = Callable[..., Ran]
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def admin(trio: Trio) -> Generator[everlog.Admin]:
    with everlog.Admin(trio.bootstrap) as admin:
        yield admin


@pytest.fixture(scope="module")
def run(trio: Trio) -> Run:
    """Run `everlog` on the cluster."""

    def run_it(*arguments: str) -> Ran:
        return run_everlog(*arguments, bootstrap=trio.bootstrap, timeout_s=PATIENCE_S)

    return run_it


def make(admin: everlog.Admin, name: str, assignments: list[list[int]]) -> str:
    """A topic with its replicas at these brokers."""
    admin.create_topics(
        [NewTopic(name, assignments=dict(enumerate(assignments)), configs={"min.insync.replicas": "1"})]
    )
    return name


def fill(bootstrap: str, topic: str, partitions: int, megabytes: int) -> None:
    with everlog.Producer(bootstrap, acks="all") as producer:
        for number in range(megabytes * 16):
            producer.send(topic, bytes(65_536), partition=number % partitions)


def replicas(admin: everlog.Admin, topic: str) -> list[tuple[int, ...]]:
    found = admin.describe_topics([topic])[topic].partitions
    return [tuple(found[index].replicas) for index in sorted(found)]


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_quorum_names_its_leader_and_voters(run: Run) -> None:
    described = run("quorum", "describe", "--json").json

    assert {voter["node_id"] for voter in described["voters"]} == {1, 2, 3}
    assert described["leader"] in {1, 2, 3}
    assert described["high_watermark"] > 0
    text = run("quorum", "describe").out
    assert "high watermark" in text
    assert text.count("voter ") == 3  # Two followers, and the line of the largest lag.


def test_a_sound_cluster_is_healthy(run: Run, admin: everlog.Admin, fresh_topic: Callable[[], str]) -> None:
    make(admin, fresh_topic(), [[1, 2, 3], [2, 3, 1], [3, 1, 2]])

    found = run("cluster", "health", "--json")

    assert found.json["findings"] == []
    assert (found.code, found.json["healthy"], found.json["voters"]) == (0, True, 3)


def test_moves_are_shown_and_not_made_without_a_yes(
    run: Run, admin: everlog.Admin, fresh_topic: Callable[[], str]
) -> None:
    topic = make(admin, fresh_topic(), [[1, 2], [1, 2], [1, 2]])

    planned = run("cluster", "reassign", "--topics", topic, "--dry-run", "--json")

    assert planned.code == 0
    assert planned.json["replicas_to_move"] == 2
    assert all(move["adding"] in ([3], []) for move in planned.json["moves"])
    assert replicas(admin, topic) == [(1, 2)] * 3


def test_moves_are_made_throttled_and_led_and_the_throttle_goes(
    run: Run, trio: Trio, admin: everlog.Admin, fresh_topic: Callable[[], str]
) -> None:
    topic = make(admin, fresh_topic(), [[1, 2], [1, 2], [1, 2]])
    fill(trio.bootstrap, topic, 3, megabytes=3)

    throttle = ("--throttle", "50M") if takes_throttles(admin) else ()
    moved = run("cluster", "reassign", "--topics", topic, *throttle, "--yes", "--json")

    assert (moved.code, moved.err.splitlines()[-1].startswith("bytes to copy")) == (0, True)
    assert moved.json["done"]
    assert moved.json["bytes_to_move"] >= 2 * 1024 * 1024
    held = [broker for each in replicas(admin, topic) for broker in each]
    assert {broker: held.count(broker) for broker in (1, 2, 3)} == {1: 2, 2: 2, 3: 2}
    until(
        lambda: all(
            each.leader == each.replicas[0]
            for each in admin.describe_topics([topic])[topic].partitions.values()
        )
    )
    resource = ConfigResource.topic(topic)
    until(lambda: not throttles(admin, resource))
    for broker in (1, 2, 3):
        assert not throttles(admin, ConfigResource.broker(broker))


def takes_throttles(admin: everlog.Admin) -> bool:
    """Whether the brokers have quotas of replication."""
    changes = {ConfigResource.broker(1): {"leader.replication.throttled.rate": "1000"}}
    try:
        admin.alter_configs(changes, validate_only=True)
    except everlog.Refused:
        return False
    return True


def throttles(admin: everlog.Admin, resource: ConfigResource) -> list[str]:
    found = admin.describe_configs([resource])[resource]
    return [
        name
        for name, entry in found.items()
        if "replication.throttled" in name and entry.source.name in ("TOPIC", "DYNAMIC_BROKER")
    ]


def test_a_plan_of_kafkas_form_is_carried_out_and_rolled_back(
    run: Run, admin: everlog.Admin, fresh_topic: Callable[[], str], tmp_path: Path
) -> None:
    topic = make(admin, fresh_topic(), [[1, 2]])
    plan = tmp_path / "plan.json"
    partition = {"topic": topic, "partition": 0, "replicas": [3, 1], "log_dirs": ["any", "any"]}
    plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))

    done = run("cluster", "reassign", "--from-file", str(plan), "--yes", "--json")
    until(lambda: replicas(admin, topic) == [(3, 1)])
    plan.write_text(json.dumps(done.json["rollback"]))
    back = run("cluster", "reassign", "--from-file", str(plan), "--yes")

    assert (done.code, back.code) == (0, 0)
    until(lambda: replicas(admin, topic) == [(1, 2)])


def test_moves_under_way_are_followed_and_called_off(
    run: Run, trio: Trio, admin: everlog.Admin, fresh_topic: Callable[[], str]
) -> None:
    if not takes_throttles(admin):
        pytest.skip("without quotas of replication no move lasts long enough to be looked at")
    topic = make(admin, fresh_topic(), [[1]])
    fill(trio.bootstrap, topic, 1, megabytes=24)

    begun = run(
        "cluster", "reassign", "--topics", topic, "--brokers", "2", "--throttle", "100K", "--no-wait", "--yes"
    )
    limited = run("cluster", "reassign", "--watch", "--topics", topic, "--wait", "1")
    called_off = run("cluster", "reassign", "--cancel", "--topics", topic, "--yes", "--json")

    assert (begun.code, begun.out) == (0, "1 partition on the way\n")
    assert limited.code == 1
    assert "1 partition still moving after 1 s, expected none: the moves go on" in limited.err
    assert called_off.json["cancelled"]
    assert replicas(admin, topic) == [(1,)]
    assert admin.list_partition_reassignments() == {}
    until(lambda: not throttles(admin, ConfigResource.topic(topic)))
    assert run("cluster", "reassign", "--watch").out == "nothing is moving\n"


def test_replicas_move_to_another_directory_of_their_broker(
    admin: everlog.Admin, fresh_topic: Callable[[], str], run: Run
) -> None:
    topic = make(admin, fresh_topic(), [[1, 2], [1, 2]])
    paths = [entry.path for entry in admin.describe_log_dirs([1])]
    planned = run("cluster", "relocate", "1", topic, "--to", paths[1], "--dry-run", "--json")
    assert planned.code == 0

    moved = run("cluster", "relocate", "1", topic, "--to", paths[1], "--yes", "--json")

    assert moved.code == 0
    assert all((each["to"], each["error"]) == (paths[1], None) for each in moved.json["moves"])
    assert len(moved.json["moves"]) == len(planned.json["moves"])
    said = run("cluster", "relocate", "1", f"{topic}:0,1", "--to", paths[1]).out
    assert said == f"nothing to move: all of it is in {paths[1]}\n"
    assert f"expected {', '.join(paths)}" in run("cluster", "relocate", "1", topic, "--to", "/no/such").err
    assert "no replica of" in run("cluster", "relocate", "1", f"{topic}:9", "--to", paths[1]).err


def test_preferred_leaders_are_elected_and_what_is_not_there_is_named(
    run: Run, trio: Trio, admin: everlog.Admin, fresh_topic: Callable[[], str]
) -> None:
    topic = make(admin, fresh_topic(), [[1, 2, 3]])
    admin.alter_partition_reassignments({TopicPartition(topic, 0): [2, 1, 3]})
    until(lambda: replicas(admin, topic) == [(2, 1, 3)])

    elected = run("cluster", "elect", "preferred", topic, "--json")

    assert elected.code == 0
    (partition,) = elected.json["partitions"]
    assert (partition["leader_before"], partition["leader"], partition["error"]) == (1, 2, None)
    assert run("cluster", "elect", "preferred", topic).out == "no preferred election is needed\n"
    assert run("cluster", "elect", "unclean", topic).out == "no unclean election is needed\n"
    wrong = run("cluster", "elect", "preferred", f"{topic}:9")
    assert (wrong.code, f"partition {topic}-9 does not exist, expected 0 to 0" in wrong.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("reassign", "--brokers", "1,9"),
            "broker 9 of --brokers does not exist, expected brokers that serve: 1, 2, 3",
        ),
        (("reassign", "--brokers", "x"), "--brokers 'x' cannot be read: expected ids such as 1,2,3"),
        (
            ("reassign", "--throttle", "fast"),
            "--throttle 'fast' cannot be read: expected bytes a second above 0",
        ),
        (("reassign", "--watch", "--cancel"), "--cancel and --watch cannot both be done"),
        (("decommission", "3", "--dry-run"), "broker 3 cannot go: partition"),
    ],
)
def test_wrong_usage_is_told(run: Run, arguments: tuple[str, ...], message: str) -> None:
    told = run("cluster", *arguments)

    assert told.code == 2
    assert message in told.err


def test_a_broker_that_was_killed_makes_the_cluster_unhealthy(
    run: Run, trio: Trio, admin: everlog.Admin, fresh_topic: Callable[[], str]
) -> None:
    admin.delete_topics(admin.list_topics())
    make(admin, fresh_topic(), [[1, 2]])
    three = make(admin, fresh_topic(), [[3, 1]])
    make(admin, fresh_topic(), [[3]])

    trio.kill(3)
    until(lambda: 3 in admin.describe_cluster(include_fenced_brokers=True).fenced)
    until(lambda: len(admin.describe_topics([three])[three].partitions[0].isr) == 1)
    sick = run("cluster", "health", "--json")

    assert sick.code == 1
    assert sick.json["fenced_brokers"] == [3]
    counts = sick.json["counts"]
    # Whether the last replica of a partition is in sync with itself while it is down is a matter of taste.
    assert (counts["fenced"], counts["leaderless"], counts["under_replicated"] >= 1) == (1, 1, True)
    assert "is not healthy" in sick.err


def test_a_broker_that_is_down_is_emptied_as_far_as_others_have_copies_and_forgotten(
    run: Run, trio: Trio, admin: everlog.Admin
) -> None:
    alone = next(name for name in admin.list_topics() if replicas(admin, name) == [(3,)])
    admin.delete_topics([alone])  # The only copy is on the dead broker: nobody can move that.

    planned = run("cluster", "decommission", "3", "--dry-run", "--json")
    gone = run("cluster", "decommission", "3", "--yes", "--json")

    assert [(move["from"], move["to"]) for move in planned.json["moves"]] == [([3, 1], [2, 1])]
    assert gone.code == 0, gone.err
    assert (gone.json["empty"], gone.json["unregistered"]) == (True, True)
    until(
        lambda: (
            {broker.node_id for broker in admin.describe_cluster(include_fenced_brokers=True).brokers}
            == {1, 2}
        )
    )
    assert run("cluster", "decommission", "3").err == (
        "error: broker 3: BROKER_ID_NOT_REGISTERED: expected one of 1, 2\n"
    )
    if gone.json["vote_removed"]:
        healthy = run("cluster", "health")
        assert healthy.code == 0, healthy.out
    else:
        assert "node 3 is still a voter" in gone.json["note"]


def test_a_bar_shows_how_far_moves_are_to_whoever_looks(
    trio: Trio, admin: everlog.Admin, fresh_topic: Callable[[], str]
) -> None:
    topic = make(admin, fresh_topic(), [[1]])
    fill(trio.bootstrap, topic, 1, megabytes=2)
    command = f"{sys.executable} -m everlog.cli cluster reassign --topics {topic} --brokers 2 --yes"

    shown = subprocess.run(
        ["script", "-qec", command, "/dev/null"],
        capture_output=True,
        text=True,
        env=environment(EVERLOG_BOOTSTRAP=trio.bootstrap),
        timeout=PATIENCE_S,
    ).stdout

    assert "moving  ████████████████████████████ 100%" in shown
