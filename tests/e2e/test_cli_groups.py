"""Groups by the real program: both protocols, lag, resets, deletion, members of our own (C2, C7, C8, O1)."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tests.e2e.groups import member, open_transaction, poll
from tests.e2e.program import Ran, environment, everlog

pytestmark = pytest.mark.e2e

FreshTopic = Callable[[], str]
PATIENCE_S = 30.0
MINUTE_MS = 60_000


@pytest.fixture
def topic(everlog_bootstrap: str, fresh_topic: FreshTopic) -> str:
    """A topic of three partitions with four records each: 60, 50, 40 and 30 minutes old."""
    name = fresh_topic()
    made = everlog("topic", "create", name, "-p", "3", bootstrap=everlog_bootstrap)
    assert made.code == 0, made.err
    now = int(time.time() * 1000)
    lines = [
        {
            "partition": partition,
            "value": f"{partition}/{number}",
            "timestamp": now - (60 - 10 * number) * MINUTE_MS,
        }
        for partition in range(3)
        for number in range(4)
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    written = everlog("produce", name, "--json", stdin=text, bootstrap=everlog_bootstrap)
    assert written.code == 0, written.err
    return name


def reset(bootstrap: str, group: str, *arguments: str) -> Ran:
    return everlog("group", "reset-offsets", group, *arguments, bootstrap=bootstrap)


def described(bootstrap: str, group: str) -> Any:
    ran = everlog("group", "describe", group, "--json", bootstrap=bootstrap)
    assert ran.code == 0, ran.err
    return ran.json


def committed(bootstrap: str, group: str) -> dict[int, int | None]:
    partitions = described(bootstrap, group)["partitions"]
    return {entry["partition"]: entry["committed_offset"] for entry in partitions}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_a_member_is_described_with_lag_and_protected_from_change(
    everlog_bootstrap: str, topic: str, protocol: str
) -> None:
    group = f"g-{topic}-{protocol}"
    with member(everlog_bootstrap, group, topic, protocol) as consumer:
        for message in poll(consumer, 12):
            if message.partition() == 1 and message.offset() == 1:
                consumer.commit(message=message, asynchronous=False)

        listed = everlog("group", "list", "--state", "Stable", "--json", bootstrap=everlog_bootstrap)
        shown = described(everlog_bootstrap, group)
        text = everlog("group", "describe", group, "--members", "--verbose", bootstrap=everlog_bootstrap)
        moved = reset(everlog_bootstrap, group, "--topic", topic, "--to-earliest", "--execute")
        gone = everlog("group", "delete", group, bootstrap=everlog_bootstrap)
        forgotten = everlog("group", "delete-offsets", group, "--topic", topic, bootstrap=everlog_bootstrap)

    (entry,) = [entry for entry in listed.json["groups"] if entry["group"] == group]
    assert (entry["state"], entry["type"]) == ("Stable", protocol)

    assert (shown["type"], shown["state"], shown["lag"]) == (protocol, "Stable", 2)
    (only,) = shown["members"]
    assert only["client_id"] == f"member-{protocol}"
    assert [place["partition"] for place in only["assignment"]] == [0, 1, 2]
    by_partition = {entry["partition"]: entry for entry in shown["partitions"]}
    assert (by_partition[0]["committed_offset"], by_partition[0]["lag"]) == (None, None)
    read = by_partition[1]
    assert (read["committed_offset"], read["end_offset"], read["lag"]) == (2, 4, 2)
    # The first record that is not consumed was written with a timestamp 40 minutes in the past.
    assert 40 * 60 <= read["lag_seconds"] < 45 * 60
    assert read["member_id"] == only["member_id"]

    assert text.code == 0
    assert only["member_id"] in text.out
    assert f"{topic}:0,1,2" in text.out

    for refused, code in [
        (moved, "NON_EMPTY_GROUP"),
        (gone, "NON_EMPTY_GROUP"),
        (forgotten, "GROUP_SUBSCRIBED_TO_TOPIC"),
    ]:
        assert refused.code == 1
        assert code in refused.err
        assert "stop them first" in refused.err


def test_a_group_that_is_caught_up_has_no_lag(everlog_bootstrap: str, topic: str) -> None:
    group = f"g-{topic}"
    made = reset(everlog_bootstrap, group, "--topic", topic, "--to-latest", "--execute")
    assert made.code == 0, made.err
    assert f"of {group}, a new group" in made.out

    shown = described(everlog_bootstrap, group)

    assert (shown["state"], shown["members"], shown["lag"], shown["lag_seconds"]) == ("Empty", [], 0, 0.0)
    assert [entry["lag_seconds"] for entry in shown["partitions"]] == [0.0, 0.0, 0.0]


def test_offsets_move_where_each_option_says_and_only_with_execute(
    everlog_bootstrap: str, topic: str
) -> None:
    group = f"g-{topic}"

    def after(*arguments: str) -> dict[int, int]:
        ran = reset(everlog_bootstrap, group, *arguments, "--json")
        assert ran.code == 0, ran.err
        return {entry["partition"]: entry["offset"] for entry in ran.json["partitions"]}

    assert after("--topic", f"{topic}:0,2", "--to-offset", "2") == {0: 2, 2: 2}
    assert everlog("group", "describe", group, bootstrap=everlog_bootstrap).code == 1

    assert after("--topic", f"{topic}:0,2", "--to-offset", "2", "--execute") == {0: 2, 2: 2}
    assert committed(everlog_bootstrap, group) == {0: 2, 2: 2}
    assert after("--all-topics", "--shift-by", "-1") == {0: 1, 2: 1}
    assert after("--all-topics", "--shift-by", "99") == {0: 4, 2: 4}
    assert after("--topic", topic, "--to-earliest") == {0: 0, 1: 0, 2: 0}
    assert after("--topic", topic, "--to-latest") == {0: 4, 1: 4, 2: 4}
    assert after("--topic", topic, "--by-duration", "45m") == {0: 2, 1: 2, 2: 2}
    assert after("--topic", topic, "--to-datetime", "2000-01-01T00:00+02:00") == {0: 0, 1: 0, 2: 0}
    assert after("--topic", topic, "--to-datetime", "2100-01-01") == {0: 4, 1: 4, 2: 4}
    assert after("--topic", topic, "--to-current") == {0: 2, 1: 4, 2: 2}
    assert committed(everlog_bootstrap, group) == {0: 2, 2: 2}


def test_an_offset_beyond_the_log_becomes_its_end_and_the_plan_says_so(
    everlog_bootstrap: str, topic: str
) -> None:
    ran = reset(everlog_bootstrap, f"g-{topic}", "--topic", f"{topic}:1", "--to-offset", "1000")

    assert ran.code == 0
    assert "1000 is not in the log" in ran.out
    assert "nothing was changed" in ran.out


def test_offsets_that_were_exported_can_be_brought_back(
    everlog_bootstrap: str, topic: str, tmp_path: Path
) -> None:
    group = f"g-{topic}"
    reset(everlog_bootstrap, group, "--topic", topic, "--to-offset", "3", "--execute")
    exported = reset(everlog_bootstrap, group, "--all-topics", "--to-current", "--export")
    assert exported.out == "".join(f"{topic},{partition},3\n" for partition in range(3))
    file = tmp_path / "offsets.csv"
    file.write_text(exported.out)

    reset(everlog_bootstrap, group, "--all-topics", "--to-earliest", "--execute")
    assert committed(everlog_bootstrap, group) == {0: 0, 1: 0, 2: 0}
    assert reset(everlog_bootstrap, group, "--from-file", str(file), "--execute").code == 0

    assert committed(everlog_bootstrap, group) == {0: 3, 1: 3, 2: 3}


def test_offsets_and_groups_are_deleted(everlog_bootstrap: str, topic: str) -> None:
    group, other = f"g-{topic}", f"none-{topic}"
    reset(everlog_bootstrap, group, "--topic", topic, "--to-latest", "--execute")

    some = everlog("group", "delete-offsets", group, "--topic", f"{topic}:1", bootstrap=everlog_bootstrap)
    assert (some.code, some.out) == (0, f"deleted the offset of {group} in {topic}-1\n")
    assert committed(everlog_bootstrap, group) == {0: 4, 2: 4}

    tried = everlog("group", "delete", group, "--dry-run", bootstrap=everlog_bootstrap)
    assert (tried.code, tried.out) == (0, f"would delete group {group}\n")
    both = everlog("group", "delete", group, other, bootstrap=everlog_bootstrap)
    assert (both.code, both.out) == (1, f"deleted group {group}\n")
    assert both.err == f"error: group '{other}': GROUP_ID_NOT_FOUND: no such group\n"
    forgiven = everlog("group", "delete", group, "--if-exists", bootstrap=everlog_bootstrap)
    assert (forgiven.code, forgiven.out, forgiven.err) == (0, "", "")


def test_what_does_not_exist_is_named(everlog_bootstrap: str, topic: str) -> None:
    group = f"none-{topic}"

    unknown = everlog("group", "describe", group, "--json", bootstrap=everlog_bootstrap)
    assert (unknown.code, unknown.json["error"]["code"]) == (1, "GROUP_ID_NOT_FOUND")
    for arguments, words in [
        (["--all-topics", "--to-latest"], f"group '{group}' has no committed offsets"),
        (["--topic", f"{topic}x", "--to-latest"], "no such topic"),
        (["--topic", f"{topic}:7", "--to-latest"], "has no partition 7: expected 0 to 2"),
        (["--topic", topic, "--shift-by", "1"], f"{topic}-0 has no committed offset to shift"),
    ]:
        ran = reset(everlog_bootstrap, group, *arguments)
        assert (ran.code, ran.out) == (1, "")
        assert words in ran.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--to-latest"], "which partitions is not clear"),
        (["--topic", "t", "--all-topics", "--to-latest"], "which partitions is not clear"),
        (["--topic", "t"], "where to is not clear, found none"),
        (["--topic", "t", "--to-latest", "--to-offset", "0"], "found --to-latest and --to-offset"),
        (["--topic", "t", "--to-datetime", "soon"], "--to-datetime 'soon' cannot be read"),
        (["--topic", "t", "--by-duration", "5"], "--by-duration '5' cannot be read"),
        (["--topic", "t:x", "--to-latest"], "topic 't:x' cannot be read"),
        (["--topic", "t", "--to-offset", "-1"], "-1 is not in the range"),
        (["--from-file", "/no/such/file"], "'/no/such/file' does not exist"),
    ],
)
def test_a_reset_that_is_not_clear_is_wrong_usage(arguments: list[str], words: str) -> None:
    ran = everlog("group", "reset-offsets", "billing", *arguments)

    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


class Member:
    """An `everlog consume --group` that runs until it is told to end."""

    def __init__(self, process: "subprocess.Popen[bytes]", output: Path) -> None:
        self.process = process
        self._output = output

    @property
    def lines(self) -> list[str]:
        return self._output.read_text().splitlines()

    def end(self, by: int) -> int:
        self.process.send_signal(by)
        return self.process.wait(PATIENCE_S)


@contextmanager
def our_member(bootstrap: str, group: str, topic: str, output: Path) -> Generator[Member]:
    with output.open("wb") as out:
        process = _start(bootstrap, group, topic, out)
    try:
        yield Member(process, output)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _start(bootstrap: str, group: str, topic: str, out: IO[bytes]) -> "subprocess.Popen[bytes]":
    words = ["consume", topic, "--group", group, "-o", "start", "--format", "%p/%o\\n"]
    return subprocess.Popen(
        [sys.executable, "-m", "everlog.cli", *words],
        stdout=out,
        env=environment(EVERLOG_BOOTSTRAP=bootstrap),
    )


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.1)


def shares(bootstrap: str, group: str) -> list[int]:
    """How many partitions each member has, once the group is stable; else nothing."""
    ran = everlog("group", "describe", group, "--json", bootstrap=bootstrap)
    if ran.code != 0 or ran.json["state"] != "Stable":
        return []
    return sorted(len(entry["assignment"]) for entry in ran.json["members"])


def test_members_of_ours_share_partitions_with_another_client_and_hand_over_what_they_read(
    everlog_bootstrap: str, topic: str, tmp_path: Path
) -> None:
    group = f"g-{topic}"
    with our_member(everlog_bootstrap, group, topic, tmp_path / "one") as one:
        until(lambda: len(one.lines) == 12, "one member reads all")
        with (
            our_member(everlog_bootstrap, group, topic, tmp_path / "two") as two,
            member(
                everlog_bootstrap, group, topic, "classic", **{"partition.assignment.strategy": "range"}
            ) as consumer,
        ):

            def each_has_one() -> bool:
                consumer.poll(0.1)
                return shares(everlog_bootstrap, group) == [1, 1, 1]

            until(each_has_one, "three members with a partition each")
            # All that was there has been read and committed; nobody reads it again.
            assert committed(everlog_bootstrap, group) == {0: 4, 1: 4, 2: 4}
            more = "".join(f'{{"partition": {partition}, "value": "x"}}\n' for partition in range(3))
            assert everlog("produce", topic, "--json", stdin=more, bootstrap=everlog_bootstrap).code == 0
            (message,) = poll(consumer, 1)
            consumer.commit(message=message, asynchronous=False)
            until(lambda: len(one.lines) + len(two.lines) == 14, "the others read what is theirs")
            assert one.end(signal.SIGINT) == 0
            assert two.end(signal.SIGTERM) == 0
            until(
                lambda: consumer.poll(0.1) is None and shares(everlog_bootstrap, group) == [3],
                "whoever stays has it all",
            )
        read = [*one.lines, *two.lines]

    assert sorted([*read, f"{message.partition()}/{message.offset()}"]) == [
        f"{partition}/{offset}" for partition in range(3) for offset in range(5)
    ]
    assert committed(everlog_bootstrap, group) == {0: 5, 1: 5, 2: 5}


def test_a_member_that_is_told_to_end_twice_commits_and_leaves_as_if_told_once(
    everlog_bootstrap: str, topic: str, tmp_path: Path
) -> None:
    group = f"g-{topic}"
    with our_member(everlog_bootstrap, group, topic, tmp_path / "out") as one:
        until(lambda: len(one.lines) == 12, "all is printed")
        # As `timeout` does: once to the process, once to its process group.
        for _ in range(20):
            one.process.send_signal(signal.SIGTERM)
            time.sleep(0.002)
        assert one.process.wait(PATIENCE_S) == 0

    assert committed(everlog_bootstrap, group) == {0: 4, 1: 4, 2: 4}
    assert described(everlog_bootstrap, group)["members"] == []


def test_a_count_commits_what_was_printed_and_no_more_and_the_next_run_goes_on(
    everlog_bootstrap: str, topic: str
) -> None:
    group = f"g-{topic}"
    words = ["consume", topic, "--group", group, "--format", "%p/%o\\n"]

    first = everlog(*words, "-o", "start", "-n", "5", bootstrap=everlog_bootstrap)
    shown = described(everlog_bootstrap, group)
    rest = everlog(*words, "--exit-at-end", bootstrap=everlog_bootstrap)
    nothing = everlog(*words, "--exit-at-end", bootstrap=everlog_bootstrap)

    assert (first.code, rest.code, nothing.code) == (0, 0, 0)
    assert len(first.out.splitlines()) == 5
    assert (shown["state"], shown["lag"]) == ("Empty", 7)
    assert sorted([*first.out.splitlines(), *rest.out.splitlines()]) == [
        f"{partition}/{offset}" for partition in range(3) for offset in range(4)
    ]
    assert nothing.out == ""


def test_a_committed_offset_that_is_not_in_the_log_any_more_is_not_gone_on_from(
    everlog_bootstrap: str, fresh_topic: FreshTopic
) -> None:
    name = fresh_topic()
    group = f"g-{name}"
    everlog("topic", "create", name, bootstrap=everlog_bootstrap)
    everlog("produce", name, stdin="a\nb\n", bootstrap=everlog_bootstrap)
    reset(everlog_bootstrap, group, "--topic", name, "--to-latest", "--execute")
    everlog("topic", "delete", name, "--yes", bootstrap=everlog_bootstrap)
    made = everlog("topic", "create", name, bootstrap=everlog_bootstrap)
    assert made.code == 0, made.err
    everlog("produce", name, stdin="c\n", bootstrap=everlog_bootstrap)

    ran = everlog("consume", name, "-g", group, "-o", "start", "-n", "1", bootstrap=everlog_bootstrap)

    assert (ran.code, ran.out) == (0, "c\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["-p", "0"], "--partition does not go with --group"), (["-o", "5"], "expected start or end")],
)
def test_a_member_chooses_neither_partitions_nor_offsets(arguments: list[str], words: str) -> None:
    ran = everlog("consume", "t", "--group", "g", *arguments)

    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_the_shell_completes_groups_of_the_cluster(everlog_bootstrap: str, topic: str) -> None:
    group = f"g-{topic}"
    reset(everlog_bootstrap, group, "--topic", topic, "--to-latest", "--execute")

    done = subprocess.run(
        [sys.executable, "-m", "everlog.cli"],
        env=environment(
            EVERLOG_BOOTSTRAP=everlog_bootstrap,
            _EVERLOG_COMPLETE="bash_complete",
            COMP_WORDS=f"everlog group describe {group[:8]}",
            COMP_CWORD="3",
        ),
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert f"plain,{group}" in done.stdout.splitlines()


def test_lag_of_a_group_that_has_consumed_a_transaction_is_none(
    everlog_bootstrap: str, fresh_topic: FreshTopic
) -> None:
    name = fresh_topic()
    everlog("topic", "create", name, bootstrap=everlog_bootstrap)
    with open_transaction(everlog_bootstrap, f"txn-{name}", name, count=2) as producer:
        producer.commit_transaction(PATIENCE_S)
    # A consumer that commits by its last record stands before the marker, which is no record.
    group = f"g-{name}"
    reset(everlog_bootstrap, group, "--topic", name, "--to-offset", "2", "--execute")

    shown = described(everlog_bootstrap, group)

    assert (shown["lag"], shown["lag_seconds"]) == (1, 0.0)
