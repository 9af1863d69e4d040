"""Records in and out by the real program (L1, L2, L7, P3, C1, C7, O1)."""

import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from tests.e2e.program import environment, everlog

pytestmark = pytest.mark.e2e

FreshTopic = Callable[[], str]
HOUR_MS = 3_600_000


@pytest.fixture
def topic(everlog_bootstrap: str, fresh_topic: FreshTopic) -> str:
    """A topic of one partition."""
    name = fresh_topic()
    assert everlog("topic", "create", name, "-p", "1", bootstrap=everlog_bootstrap).code == 0
    return name


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["all", "1"])
def test_lines_come_back_as_they_went_in(everlog_bootstrap: str, topic: str, codec: str, acks: str) -> None:
    lines = [f"value {number} " * (number % 40) for number in range(200)]

    written = everlog(
        "produce",
        topic,
        "--codec",
        codec,
        "--acks",
        acks,
        "--json",
        "--input",
        "text",
        stdin="\n".join(lines),
        bootstrap=everlog_bootstrap,
    )
    read = everlog("consume", topic, "-o", "start", "-e", bootstrap=everlog_bootstrap)

    assert written.code == 0
    assert written.json["partitions"] == [
        {"partition": 0, "records": 200, "first_offset": 0, "last_offset": 199}
    ]
    assert read.out.split("\n") == [*lines, ""]


def test_acks_0_writes_without_hearing_of_offsets(everlog_bootstrap: str, topic: str) -> None:
    written = everlog(
        "produce",
        topic,
        "--acks",
        "0",
        "--json",
        "--input",
        "text",
        stdin="a\nb\n",
        bootstrap=everlog_bootstrap,
    )
    read = everlog("consume", topic, "-o", "start", "-n", "2", bootstrap=everlog_bootstrap)

    assert written.json["partitions"] == [
        {"partition": 0, "records": 2, "first_offset": None, "last_offset": None}
    ]
    assert read.out == "a\nb\n"


def test_keys_headers_and_timestamps_are_kept(everlog_bootstrap: str, topic: str) -> None:
    everlog(
        *("produce", topic, "--key-separator", "=>", "-H", "source=shop", "-H", "n="),
        *("--timestamp", "2026-01-31T08:00:00Z"),
        stdin="k1=>v1\nk2=>v2=>more\n",
        bootstrap=everlog_bootstrap,
    )

    read = everlog(
        "consume",
        topic,
        "-o",
        "start",
        "-e",
        "--format",
        r"%t %p %o %T %D %k %v %h %K %V\n",
        bootstrap=everlog_bootstrap,
    )

    when = "1769846400000 2026-01-31T08:00:00.000Z"
    assert read.out.splitlines() == [
        f"{topic} 0 0 {when} k1 v1 source=shop,n= 2 2",
        f"{topic} 0 1 {when} k2 v2=>more source=shop,n= 2 8",
    ]


def test_the_same_key_goes_to_the_same_partition_as_with_other_clients(
    everlog_bootstrap: str, fresh_topic: FreshTopic
) -> None:
    name = fresh_topic()
    everlog("topic", "create", name, "-p", "10", bootstrap=everlog_bootstrap)
    everlog("produce", name, "-k", ":", stdin="21:a\nfoobar:b\nabc:c\n", bootstrap=everlog_bootstrap)

    read = everlog("consume", name, "-o", "start", "-e", "--format", r"%k %p\n", bootstrap=everlog_bootstrap)

    hashes = {"21": -973932308, "foobar": -790332482, "abc": 479470107}
    expected = {f"{key} {(hashed & 0x7FFFFFFF) % 10}" for key, hashed in hashes.items()}
    assert set(read.out.splitlines()) == expected


def test_json_carries_bytes_that_are_no_text_from_topic_to_topic(
    everlog_bootstrap: str, topic: str, fresh_topic: FreshTopic
) -> None:
    copy = fresh_topic()
    everlog("topic", "create", copy, bootstrap=everlog_bootstrap)
    lines = (
        '{"key": {"base64": "/wA="}, "value": "caf\\u00e9", "timestamp": 5, '
        '"headers": [{"key": "h", "value": {"base64": "gIA="}}]}\n'
        '{"key": "k", "value": null, "headers": {"a": "1"}, "partition": 0, "timestamp": 6}\n'
    )

    everlog("produce", topic, "--json", stdin=lines, bootstrap=everlog_bootstrap)
    first = everlog("consume", topic, "-o", ":end", "--json", bootstrap=everlog_bootstrap)
    everlog("produce", copy, "--json", stdin=first.out, bootstrap=everlog_bootstrap)
    second = everlog("consume", copy, "-o", ":end", "--json", bootstrap=everlog_bootstrap)

    assert first.json_lines == [
        {
            "command": "consume",
            "version": 1,
            "topic": topic,
            "partition": 0,
            "offset": 0,
            "timestamp": 5,
            "key": {"base64": "/wA="},
            "value": "café",
            "headers": [{"key": "h", "value": {"base64": "gIA="}}],
        },
        {
            "command": "consume",
            "version": 1,
            "topic": topic,
            "partition": 0,
            "offset": 1,
            "timestamp": 6,
            "key": "k",
            "value": None,
            "headers": [{"key": "a", "value": "1"}],
        },
    ]
    assert [{**line, "topic": topic} for line in second.json_lines] == first.json_lines


def test_ranges_are_read_by_offset_and_by_time(everlog_bootstrap: str, topic: str) -> None:
    now = int(time.time() * 1000)
    lines = [f'{{"value": "{number}", "timestamp": {now - (10 - number) * HOUR_MS}}}' for number in range(10)]
    everlog("produce", topic, "--json", stdin="\n".join(lines), bootstrap=everlog_bootstrap)

    def read(spec: str, *flags: str) -> str:
        ran = everlog(
            "consume", topic, "-o", spec, "-e", "--format", "%v", *flags, bootstrap=everlog_bootstrap
        )
        assert ran.code == 0, ran.err
        return ran.out

    assert read("start") == "0123456789"
    assert read("end") == ""
    assert read("+7") == "789"
    assert read("-2") == "89"
    assert read("4") == "456789"
    assert read("2:5") == "234"
    assert read("-5:-2") == "567"
    assert read("start", "-n", "3") == "012"
    assert read("@-210m") == "789"
    assert read("@-210m:-90m") == "78"
    assert read(f"@{now - 4 * HOUR_MS}:2h") == "67"
    assert read("@-1m") == ""


def test_partitions_can_be_chosen(everlog_bootstrap: str, fresh_topic: FreshTopic) -> None:
    name = fresh_topic()
    everlog("topic", "create", name, "-p", "3", bootstrap=everlog_bootstrap)
    for partition in range(3):
        everlog("produce", name, "-p", str(partition), stdin=f"in {partition}\n", bootstrap=everlog_bootstrap)

    read = everlog("consume", name, "-o", "start", "-e", "-p", "0,2", bootstrap=everlog_bootstrap)
    missing = everlog("consume", name, "-p", "7", bootstrap=everlog_bootstrap)

    assert sorted(read.out.splitlines()) == ["in 0", "in 2"]
    assert missing.code == 1
    assert missing.err == f"error: topic '{name}' has no partition 7: expected 0 to 2\n"


def test_what_is_written_now_reaches_a_follower_though_the_writer_goes_on(
    everlog_bootstrap: str, topic: str
) -> None:
    environ = environment(EVERLOG_BOOTSTRAP=everlog_bootstrap)
    writer = subprocess.Popen(
        [sys.executable, "-m", "everlog.cli", "produce", topic],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=environ,
    )
    reader = subprocess.Popen(
        [sys.executable, "-m", "everlog.cli", "consume", topic, "-o", "start", "--follow"],
        stdout=subprocess.PIPE,
        env=environ,
    )
    assert writer.stdin is not None
    assert reader.stdout is not None
    try:
        for line in (b"one\n", b"two\n"):
            writer.stdin.write(line)
            writer.stdin.flush()
            assert reader.stdout.readline() == line
        reader.send_signal(2)
        assert reader.wait(20) == 0
        writer.stdin.close()
        assert writer.wait(20) == 0
    finally:
        writer.kill()
        reader.kill()
        writer.wait()
        reader.wait()
        reader.stdout.close()


def test_a_reader_that_closes_the_pipe_is_no_error(everlog_bootstrap: str, topic: str) -> None:
    everlog("produce", topic, stdin="line\n" * 50_000, bootstrap=everlog_bootstrap)

    piped = subprocess.run(
        [
            "bash",
            "-o",
            "pipefail",
            "-c",
            f"{sys.executable} -m everlog.cli consume {topic} -o start -e | head -n 1",
        ],
        env=environment(EVERLOG_BOOTSTRAP=everlog_bootstrap),
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (piped.returncode, piped.stdout, piped.stderr) == (0, "line\n", "")


def test_lines_before_a_bad_one_are_delivered_and_the_bad_one_is_named(
    everlog_bootstrap: str, topic: str
) -> None:
    written = everlog(
        "produce", topic, "-k", ":", stdin="a:1\nb:2\nno key\nc:3\n", bootstrap=everlog_bootstrap
    )
    read = everlog("consume", topic, "-o", "start", "-e", bootstrap=everlog_bootstrap)

    assert written.code == 1
    assert written.err == "error: line 3 has no key: expected ':' between key and value\n"
    assert read.out == "1\n2\n"


def test_a_record_that_is_too_large_fails_with_the_brokers_words(everlog_bootstrap: str, topic: str) -> None:
    everlog("config", "set", "topic", topic, "max.message.bytes=1000", bootstrap=everlog_bootstrap)

    written = everlog("produce", topic, stdin="small\n" + "x" * 5000 + "\n", bootstrap=everlog_bootstrap)

    assert written.code == 1
    assert "1 record not delivered" in written.err
    assert "MESSAGE_TOO_LARGE" in written.err


def test_a_topic_that_does_not_exist_is_named_and_nothing_hangs(
    everlog_bootstrap: str, fresh_topic: FreshTopic
) -> None:
    name = fresh_topic()

    for arguments in (("produce", name), ("consume", name), ("perf", "consume", name)):
        ran = everlog(*arguments, stdin="x\n", bootstrap=everlog_bootstrap)
        assert ran.code == 1
        assert ran.err == f"error: topic '{name}': UNKNOWN_TOPIC_OR_PARTITION: no such topic\n"


def test_perf_measures_and_sums_up(everlog_bootstrap: str, fresh_topic: FreshTopic) -> None:
    name = fresh_topic()

    produced = everlog(
        "perf", "produce", name, "-n", "5000", "-s", "50", "--json", bootstrap=everlog_bootstrap
    )
    consumed = everlog("perf", "consume", name, "--json", bootstrap=everlog_bootstrap)
    raw = everlog("perf", "consume", name, "--raw", "-n", "100", "--json", bootstrap=everlog_bootstrap)
    latency = everlog(
        "perf", "latency", name, "-n", "50", "--warm-up", "5", "--json", bootstrap=everlog_bootstrap
    )

    assert (produced.code, consumed.code, raw.code, latency.code) == (0, 0, 0, 0), produced.err + latency.err
    assert (produced.json["records"], produced.json["bytes"], produced.json["failed"]) == (5000, 250_000, 0)
    assert produced.json["records_per_second"] > 0
    assert (
        produced.json["latency"]["p50_ms"]
        <= produced.json["latency"]["p99_ms"]
        <= produced.json["latency"]["max_ms"]
    )
    assert consumed.json["records"] == 5000
    assert raw.json["records"] >= 100
    assert latency.json["acknowledged"]["count"] == latency.json["end_to_end"]["count"] == 50
    assert produced.err == ""
