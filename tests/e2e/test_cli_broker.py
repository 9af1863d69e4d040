"""`up`, `server`, `log` and the demo: the program as a broker, and the files it leaves (L3, L10, O1)."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from everlog import Producer
from tests import brokers
from tests.e2e.program import environment, everlog

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_up_prints_one_line_and_ends_cleanly_by_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    broker = subprocess.Popen(
        [sys.executable, "-m", "everlog.cli", "up", "--dir", str(tmp_path / "data"), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert broker.stdout is not None
    try:
        line = broker.stdout.readline()
        assert line.startswith("ready bootstrap=127.0.0.1:")
        bootstrap = line.strip().partition("=")[2]
        assert everlog("topic", "create", "t", bootstrap=bootstrap).code == 0
        broker.send_signal(number)
        out, err = broker.communicate(timeout=30)
    finally:
        broker.kill()
        broker.wait()

    assert (broker.returncode, out) == (0, "")
    assert "Traceback" not in err


def test_data_is_found_again_by_the_next_up(tmp_path: Path) -> None:
    broker = brokers.start_up(tmp_path / "data", tmp_path / "stderr")
    everlog("topic", "create", "orders", bootstrap=broker.bootstrap)
    everlog("produce", "orders", stdin="kept\n", bootstrap=broker.bootstrap)
    assert broker.stop() == 0

    again = brokers.start_up(tmp_path / "data", tmp_path / "stderr")
    read = everlog("consume", "orders", "-o", "start", "-e", bootstrap=again.bootstrap)
    assert again.stop() == 0

    assert read.out == "kept\n"


def test_ephemeral_data_goes_with_the_broker(tmp_path: Path) -> None:
    broker = brokers.start(["up", "--ephemeral", "--port", "0"], tmp_path / "stderr")
    described = everlog("cluster", "describe", "--json", bootstrap=broker.bootstrap).json
    directory = Path(described["brokers"][0]["log_dirs"][0]["path"])
    assert directory.is_dir()

    assert broker.stop() == 0

    assert not directory.exists()


def test_a_port_that_is_taken_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = everlog("up", "--dir", str(tmp_path), "--port", str(port))

    assert (ran.code, ran.out) == (1, "")
    assert str(port) in ran.err
    assert "Traceback" not in ran.err


def test_server_reads_a_properties_file_with_overrides(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(
        "# a node\nnode.id=7\nprocess.roles=broker,controller\n"
        f"listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path}/data\nnum.partitions=2\n"
    )

    broker = brokers.start(
        ["server", "--config", str(config), "--override", "num.partitions=4"], tmp_path / "stderr"
    )
    created = everlog("topic", "create", "t", "--json", bootstrap=broker.bootstrap).json
    described = everlog("cluster", "describe", "--json", bootstrap=broker.bootstrap).json
    assert broker.stop() == 0

    assert created["topics"][0]["partitions"] == 4
    assert [entry["id"] for entry in described["brokers"]] == [7]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("log.retention.hourz=1", "log.retention.hourz"),
        ("log.retention.hours=soon", "log.retention.hours"),
        ("node.id=8", "node.id is given twice"),
    ],
)
def test_a_wrong_setting_ends_the_start_with_an_error_that_names_it(
    tmp_path: Path, line: str, words: str
) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=7\nprocess.roles=broker,controller\nlog.dirs={tmp_path}/data\n{line}\n")

    ran = everlog("server", "--config", str(config))

    assert (ran.code, ran.out) == (1, "")
    assert words in ran.err
    assert str(config) in ran.err


def test_files_of_a_stopped_broker_verify_and_a_flipped_bit_is_found(tmp_path: Path) -> None:
    data = tmp_path / "data"
    broker = brokers.start_up(data, tmp_path / "stderr", "--override", "log.index.interval.bytes=100")
    everlog("topic", "create", "orders", bootstrap=broker.bootstrap)
    with Producer(broker.bootstrap) as producer:
        for number in range(2000):
            producer.send("orders", b"value %d" % number, b"k%d" % number)
            if number % 100 == 99:
                producer.flush()  # A batch stays open while it waits; many are wanted here.
    assert broker.stop() == 0
    segment = data / "orders-0" / f"{0:020d}.log"

    whole = everlog("log", "verify", str(data), "--records", "--json")
    assert whole.code == 0, whole.err
    assert whole.json["ok"]
    checked = {entry["name"]: entry for entry in whole.json["partitions"]}
    assert (checked["orders-0"]["records"], checked["orders-0"]["end_offset"]) == (2000, 2000)
    assert checked["orders-0"]["batches"] > 10

    raw = bytearray(segment.read_bytes())
    raw[len(raw) // 2] ^= 0x10
    segment.write_bytes(raw)
    damaged = everlog("log", "verify", str(data / "orders-0"))
    assert damaged.code == 1
    assert f"{segment} at position" in damaged.err
    assert damaged.out.endswith("1 finding\n")


def test_dump_shows_batches_records_indexes_and_checkpoints(tmp_path: Path) -> None:
    data = tmp_path / "data"
    broker = brokers.start_up(data, tmp_path / "stderr", "--override", "log.index.interval.bytes=1")
    everlog("topic", "create", "orders", bootstrap=broker.bootstrap)
    for value in ("a:1\nb:2\n", "c:3\n"):
        everlog(
            "produce",
            "orders",
            "-k",
            ":",
            "-H",
            "h=x",
            "--timestamp",
            "1000",
            stdin=value,
            bootstrap=broker.bootstrap,
        )
    assert broker.stop() == 0
    stem = str(data / "orders-0" / f"{0:020d}")

    batches = everlog("log", "dump", f"{stem}.log", "--records", "--json").json_lines
    assert [(batch["base_offset"], batch["last_offset"]) for batch in batches] == [(0, 1), (2, 2)]
    assert [record["key"] for batch in batches for record in batch["records"]] == ["a", "b", "c"]
    text = everlog("log", "dump", f"{stem}.log", "--records").out
    assert '    offset 2  time 1970-01-01T00:00:01.000Z  key "c"  value "3"  headers' in text
    indexed = everlog("log", "dump", f"{stem}.index", "--json").json_lines
    assert [(entry["offset"], entry["position"]) for entry in indexed] == [(2, batches[1]["position"])]
    epochs = everlog("log", "dump", str(data / "orders-0" / "leader-epoch-checkpoint"))
    assert epochs.out.splitlines()[1:] == ["  0", "  1", "  0 0"]
    metadata = everlog("log", "dump", "--metadata", str(data / "__cluster_metadata-0" / f"{0:020d}.log"))
    assert metadata.code == 0
    assert "TopicRecord(name='orders'" in metadata.out


def test_dump_of_a_torn_segment_shows_what_is_whole_and_exits_1(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"\1" * 30)

    ran = everlog("log", "dump", str(path))

    assert ran.code == 1
    assert "DAMAGE at position 0: 30 bytes are left" in ran.out


def test_the_demo_runs_to_its_summary_without_a_terminal() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "everlog.cli.demo", "--without-spark", "--count", "3000", "--brokers", "1"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=90,
    )

    assert done.returncode == 0, done.stderr
    assert "A broker serves at 127.0.0.1:" in done.stdout
    assert "3,000 orders written" in done.stdout
    assert "✓ every minute has the count and sum of its orders" in done.stdout
    assert done.stderr == ""
