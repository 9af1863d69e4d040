"""Topics, settings and the cluster by the real program (L1, O1)."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.e2e.program import environment, everlog

pytestmark = pytest.mark.e2e

FreshTopic = Callable[[], str]


def test_a_topic_lives_from_create_to_delete(everlog_bootstrap: str, fresh_topic: FreshTopic) -> None:
    name = fresh_topic()

    created = everlog(
        "topic", "create", name, "-p", "3", "-c", "retention.ms=60000", "--json", bootstrap=everlog_bootstrap
    )
    assert created.code == 0
    (topic,) = created.json["topics"]
    assert (topic["name"], topic["partitions"], topic["created"], topic["error"]) == (name, 3, True, None)

    listed = everlog("topic", "list", "--json", bootstrap=everlog_bootstrap)
    assert {
        "name": name,
        "id": topic["id"],
        "internal": False,
        "partitions": 3,
        "replication_factor": 1,
    } in listed.json["topics"]

    (described,) = everlog("topic", "describe", name, "--json", bootstrap=everlog_bootstrap).json["topics"]
    assert described["configs"] == {"retention.ms": "60000"}
    assert [entry["partition"] for entry in described["partitions"]] == [0, 1, 2]
    assert all(entry["leader"] >= 0 and entry["end_offset"] == 0 for entry in described["partitions"])

    grown = everlog("topic", "add-partitions", name, "--total", "5", bootstrap=everlog_bootstrap)
    assert (grown.code, grown.out) == (0, f"topic {name} has 5 partitions\n")

    deleted = everlog("topic", "delete", name, "--yes", bootstrap=everlog_bootstrap)
    assert (deleted.code, deleted.out) == (0, f"deleted topic {name}\n")
    gone = everlog("topic", "describe", name, bootstrap=everlog_bootstrap)
    assert gone.code == 1
    assert gone.err == f"error: topic '{name}': UNKNOWN_TOPIC_OR_PARTITION: no such topic\n"


def test_one_topic_that_fails_does_not_hide_the_others(
    everlog_bootstrap: str, fresh_topic: FreshTopic
) -> None:
    good = fresh_topic()

    ran = everlog("topic", "create", good, "not a name", "--json", bootstrap=everlog_bootstrap)

    assert ran.code == 1
    assert "'not a name'" in ran.err
    by_name = {topic["name"]: topic["error"] for topic in ran.json["topics"]}
    assert by_name[good] is None
    assert by_name["not a name"]["code"] == "INVALID_TOPIC_EXCEPTION"


def test_creating_twice_is_an_error_unless_it_is_said_not_to_be(
    everlog_bootstrap: str, fresh_topic: FreshTopic
) -> None:
    name = fresh_topic()
    everlog("topic", "create", name, bootstrap=everlog_bootstrap)

    again = everlog("topic", "create", name, bootstrap=everlog_bootstrap)
    forgiven = everlog("topic", "create", name, "--if-not-exists", bootstrap=everlog_bootstrap)

    assert again.code == 1
    assert "TOPIC_ALREADY_EXISTS" in again.err
    assert (forgiven.code, forgiven.out) == (0, f"topic {name} exists\n")


def test_a_dry_run_changes_nothing(everlog_bootstrap: str, fresh_topic: FreshTopic) -> None:
    name = fresh_topic()

    would_create = everlog("topic", "create", name, "-p", "2", "--dry-run", bootstrap=everlog_bootstrap)
    assert would_create.code == 0
    assert would_create.out.startswith(f"would create topic {name}")
    assert everlog("topic", "describe", name, bootstrap=everlog_bootstrap).code == 1

    everlog("topic", "create", name, bootstrap=everlog_bootstrap)
    would_delete = everlog("topic", "delete", name, "--dry-run", bootstrap=everlog_bootstrap)
    assert (would_delete.code, would_delete.out) == (0, f"would delete topic {name}\n")
    assert everlog("topic", "describe", name, bootstrap=everlog_bootstrap).code == 0


def test_partitions_cannot_become_fewer(everlog_bootstrap: str, fresh_topic: FreshTopic) -> None:
    name = fresh_topic()
    everlog("topic", "create", name, "-p", "3", bootstrap=everlog_bootstrap)

    ran = everlog("topic", "add-partitions", name, "--total", "2", bootstrap=everlog_bootstrap)

    assert ran.code == 1
    assert "INVALID_PARTITIONS" in ran.err


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_deleting_at_a_terminal_asks_first(
    everlog_bootstrap: str, fresh_topic: FreshTopic, answer: str, code: int
) -> None:
    name = fresh_topic()
    everlog("topic", "create", name, bootstrap=everlog_bootstrap)
    terminal, theirs = pty.openpty()
    try:
        program = subprocess.Popen(
            [sys.executable, "-m", "everlog.cli", "topic", "delete", name],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(EVERLOG_BOOTSTRAP=everlog_bootstrap),
        )
        os.write(terminal, f"{answer}\n".encode())
        _, asked = program.communicate(timeout=60)
    finally:
        os.close(terminal)
        os.close(theirs)

    assert f"Delete {name} and all records in them?" in asked
    assert program.returncode == code
    assert everlog("topic", "describe", name, bootstrap=everlog_bootstrap).code == 1 - code


def test_settings_are_set_described_and_deleted(everlog_bootstrap: str, fresh_topic: FreshTopic) -> None:
    name = fresh_topic()
    everlog("topic", "create", name, bootstrap=everlog_bootstrap)

    changed = everlog("config", "set", "topic", name, "retention.ms=1234567", bootstrap=everlog_bootstrap)
    assert (changed.code, changed.out) == (0, f"set retention.ms=1234567 of topic '{name}'\n")
    (entry,) = everlog(
        "config", "describe", "topic", name, "-k", "retention.ms", "--json", bootstrap=everlog_bootstrap
    ).json["configs"]
    assert (entry["value"], entry["source"]) == ("1234567", "topic")

    tried = everlog(
        "topic", "alter", name, "--config", "retention.ms=1", "--dry-run", bootstrap=everlog_bootstrap
    )
    assert tried.out == f"would set retention.ms=1 of topic '{name}'\n"
    altered = everlog("topic", "alter", name, "--delete-config", "retention.ms", bootstrap=everlog_bootstrap)
    assert altered.code == 0
    (entry,) = everlog(
        "config", "describe", "topic", name, "-k", "retention.ms", "--json", bootstrap=everlog_bootstrap
    ).json["configs"]
    assert (entry["value"], entry["source"]) == ("604800000", "default")


@pytest.mark.parametrize("setting", ["no.such.setting=1", "retention.ms=soon"])
def test_a_setting_that_cannot_be_is_refused_by_name(
    everlog_bootstrap: str, fresh_topic: FreshTopic, setting: str
) -> None:
    name = fresh_topic()
    everlog("topic", "create", name, bootstrap=everlog_bootstrap)

    ran = everlog("config", "set", "topic", name, setting, bootstrap=everlog_bootstrap)

    assert ran.code == 1
    assert "INVALID_CONFIG" in ran.err
    assert setting.partition("=")[0] in ran.err


def test_a_brokers_settings_are_told_by_the_broker_itself(everlog_bootstrap: str) -> None:
    ran = everlog(
        "config", "describe", "broker", "1", "--all", "--docs", "--json", bootstrap=everlog_bootstrap
    )

    assert ran.code == 0
    by_name = {entry["name"]: entry for entry in ran.json["configs"]}
    assert by_name["node.id"]["value"] == "1"
    assert by_name["log.retention.hours"]["documentation"]
    missing = everlog("config", "describe", "broker", "77", bootstrap=everlog_bootstrap)
    assert missing.code == 1
    assert "broker 77" in missing.err


def test_the_cluster_is_described_with_its_broker_and_sizes(
    everlog_bootstrap: str, fresh_topic: FreshTopic
) -> None:
    name = fresh_topic()
    everlog("topic", "create", name, bootstrap=everlog_bootstrap)
    everlog("produce", name, stdin="hello\n", bootstrap=everlog_bootstrap)

    described = everlog("cluster", "describe", "--json", bootstrap=everlog_bootstrap).json

    host, _, port = everlog_bootstrap.rpartition(":")
    (broker,) = described["brokers"]
    assert (broker["host"], broker["port"]) == (host, int(port))
    assert described["cluster_id"]
    assert described["under_replicated_partitions"] == described["leaderless_partitions"] == 0
    assert sum(entry["bytes"] for entry in broker["log_dirs"]) > 60


def test_the_shell_completes_topics_of_the_cluster(everlog_bootstrap: str, fresh_topic: FreshTopic) -> None:
    name = fresh_topic()
    everlog("topic", "create", name, bootstrap=everlog_bootstrap)

    done = subprocess.run(
        [sys.executable, "-m", "everlog.cli"],
        env=environment(
            EVERLOG_BOOTSTRAP=everlog_bootstrap,
            _EVERLOG_COMPLETE="bash_complete",
            COMP_WORDS=f"everlog topic describe {name[:6]}",
            COMP_CWORD="3",
        ),
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert f"plain,{name}" in done.stdout.splitlines()
