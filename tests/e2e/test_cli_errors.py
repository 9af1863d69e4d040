"""What the program says when it is called wrongly, or nobody answers (O1)."""

import socket
import time
from pathlib import Path

import pytest

from tests.e2e.program import everlog

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tpic"], "has no command 'tpic'. Did you mean 'topic'?"),
        (["topic", "crate"], "has no command 'crate'. Did you mean 'create'?"),
        (["topic", "create"], "Missing argument 'TOPIC…'"),
        (["topic", "create", "x", "-p", "0"], "0 is not in the range"),
        (["topic", "create", "x", "-c", "novalue"], "--config 'novalue' cannot be read: expected KEY=VALUE"),
        (["topic", "alter", "x"], "nothing to change"),
        (["topic", "list", "-b", "host:x"], "bootstrap address 'host:x' cannot be read"),
        (["config", "describe", "broker", "one"], "broker 'one' cannot be read"),
        (["consume", "x", "-o", "soon"], "offset 'soon' cannot be read"),
        (["consume", "x", "-p", "a"], "--partition 'a' cannot be read"),
        (["consume", "x", "--format", "%q"], "has '%q'"),
        (["produce", "x", "--acks", "2"], "'2' is not one of"),
        (["perf", "produce", "x", "--idempotent", "--acks", "1"], "--idempotent needs --acks all"),
        (["produce", "x", "--header", "h"], "--header 'h' cannot be read"),
        (["produce", "x", "--timestamp", "soon"], "--timestamp 'soon' cannot be read"),
        (["up", "--brokers", "0"], "Invalid value for '--brokers'"),
        (["up", "--ephemeral", "--dir", "x"], "--ephemeral makes a directory of its own"),
        (["up", "--override", "x"], "--override 'x' cannot be read"),
        (["server", "--config", "no-such-file"], "'no-such-file' does not exist"),
        (["log", "dump", "no-such-file"], "'no-such-file' does not exist"),
        (["table", "declare", "--file", "no-such-file"], "'no-such-file' does not exist"),
        (["completion", "tcsh"], "'tcsh' is not one of"),
    ],
)
def test_wrong_usage_is_exit_code_2_with_the_reason_on_stderr(arguments: list[str], words: str) -> None:
    ran = everlog(*arguments)

    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert "Traceback" not in ran.err
    assert "Try 'everlog" in ran.err


def test_a_setting_of_a_run_that_is_no_pair_is_wrong_usage_whether_or_not_there_is_a_cluster(
    tmp_path: Path,
) -> None:
    project = str(tmp_path / "sales")
    assert everlog("pipeline", "init", project).code == 0

    ran = everlog("pipeline", "run", project, "-c", "novalue", "-b", "127.0.0.1:1")

    assert (ran.code, ran.out) == (2, "")
    assert "--conf 'novalue' cannot be read: expected KEY=VALUE" in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "list"],
        ["topic", "create", "x"],
        ["produce", "x"],
        ["consume", "x"],
        ["consume", "x", "--group", "g"],
        ["group", "list"],
        ["group", "describe", "x"],
        ["group", "reset-offsets", "x", "--topic", "t", "--to-latest"],
        ["group", "delete", "x"],
        ["txn", "list"],
        ["txn", "abort", "x"],
        ["txn", "find-hanging"],
        ["config", "describe", "topic", "x"],
        ["cluster", "describe"],
        ["perf", "latency", "x"],
    ],
    ids=" ".join,
)
def test_nobody_listening_is_one_line_and_exit_code_1(arguments: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    ran = everlog(*arguments, "-b", f"127.0.0.1:{port}", stdin="line\n")

    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"error: broker 127.0.0.1:{port} ")
    assert ran.err.endswith("refused the connection: is it running there?\n")
    assert ran.err.count("\n") == 1


def test_a_listener_that_never_answers_is_given_up_after_the_time_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        ran = everlog("topic", "list", "-b", address, "--timeout", "0.5")

    assert ran.code == 1
    assert f"no connection to any broker of {address} within 0.5 s" in ran.err
    assert time.monotonic() - began < 20


def test_version_and_help_need_no_cluster() -> None:
    assert (
        everlog("--version").out
        == everlog("version").out.replace("everlog   ", "everlog ").split("\n")[0] + "\n"
    )
    assert everlog("--help").code == 0
    assert everlog("version", "--json").json["command"] == "version"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_completion_script(shell: str) -> None:
    ran = everlog("completion", shell)

    assert ran.code == 0
    assert f"_EVERLOG_COMPLETE={shell}_complete" in ran.out
