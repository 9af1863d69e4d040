"""A process that was forked has no use for its parent's clients and is told so; the parent goes on."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.client.conftest import NewTopic
from tests.client.log_reading import read_log

LIMIT_S = 60.0

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")

both_loops = pytest.mark.parametrize("loop", [[], ["--without-uvloop"]], ids=["uvloop", "asyncio"])


def forked(what: str, bootstrap: str, topic: str, loop: list[str]) -> dict[str, Any]:
    """What a scenario of `forking` found out."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.client.forking", what, bootstrap, topic, *loop],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    assert found["child"].pop("exit") == "0", (found, run.stderr)
    return found


def check_refused(heard: dict[str, str], *calls: str) -> None:
    for call in calls:
        told = heard.pop(call)
        assert told.startswith("Closed: this client was made in process "), (call, told)
        assert told.endswith("is a fork: make one in each process, after the fork"), (call, told)


@both_loops
def test_a_producer_takes_nothing_in_a_forked_process_and_goes_on_in_its_own(
    bootstrap: str, new_topic: NewTopic, loop: list[str]
) -> None:
    topic = new_topic()
    found = forked("producer", bootstrap, topic, loop)

    check_refused(found["child"], "send", "send once more", "send to another", "send_arrow")
    check_refused(found["child"], "flush", "partitions_for", "result")
    assert found["child"] == {"delivered": "returned 0", "retries": "0"}
    assert found["parent"] == list(range(9))
    assert [record.value for record in read_log(bootstrap, topic)] == [b"%d" % number for number in range(9)]


@both_loops
def test_a_consumer_hands_out_nothing_in_a_forked_process_and_goes_on_in_its_own(
    bootstrap: str, new_topic: NewTopic, loop: list[str]
) -> None:
    found = forked("consumer", bootstrap, new_topic(), loop)

    check_refused(found["child"], "iterate", "poll", "commit", "seek", "wakeup", "next")
    assert found["parent"] == list(range(6))
    assert found["committed"] == 6


def test_a_forked_process_does_not_wait_for_a_thread_that_it_does_not_have(
    bootstrap: str, new_topic: NewTopic
) -> None:
    found = forked("busy_consumer", bootstrap, new_topic(), [])

    check_refused(found["child"], "poll")
    assert found == {"child": {"close": "returned None"}, "parent": [0]}


@both_loops
def test_an_admin_asks_nothing_in_a_forked_process_and_goes_on_in_its_own(
    bootstrap: str, new_topic: NewTopic, loop: list[str]
) -> None:
    found = forked("admin", bootstrap, new_topic(), loop)

    check_refused(found["child"], "list_topics")
    assert found["parent"] is True


def test_clients_of_a_loop_are_of_no_use_in_a_forked_process_once_they_were_used(
    bootstrap: str, new_topic: NewTopic
) -> None:
    found = forked("on_a_loop", bootstrap, new_topic(), [])

    check_refused(found["child"], "send", "flush", "poll", "topics", "list_topics")
    assert found == {"child": {"close": "returned None", "unused": "returned True"}, "parent": [0, 1]}
