"""Apache Kafka itself, by Maven's ordinary client: its broker and its tools, to check ourselves against.

The jars are resolved once into `.work/` at the repository's root. The broker runs as one combined KRaft node
with the settings of the `server.properties` that Kafka ships and the heap and garbage collector flags of its
`kafka-server-start`, so that what is compared is what its users run.
"""

import fcntl
import shutil
import subprocess
import sys
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.brokers import free_port

VERSION = "4.3.1"
WORK = Path(__file__).resolve().parent.parent / ".work"

_HEAP = ("-Xmx1G", "-Xms1G")
_COLLECTOR = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)

_DEPENDENCIES = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
)

_LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRefs = out
rootLogger.appenderRef.out.ref = OUT
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
"""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why something of another project cannot be had on this machine, in words for a skipped test."""

    reason: str


@cache
def classpath() -> str | Unavailable:
    """The class path of Kafka's broker and tools; resolved by Maven once and then taken from `.work/`."""
    if isinstance(missing := programs_missing("java", "mvn"), Unavailable):
        return missing
    home = WORK / f"apache-kafka-{VERSION}"
    with work_lock(home.name):
        if not (home / "done").exists():
            home.mkdir(parents=True, exist_ok=True)
            (home / "pom.xml").write_text(_pom())
            (home / "log4j2.properties").write_text(_LOGGING)
            built = subprocess.run(
                ["mvn", "-B", "-q", "dependency:copy-dependencies", "-DoutputDirectory=libs"],
                cwd=home,
                capture_output=True,
                text=True,
            )
            if built.returncode != 0:
                return Unavailable(
                    f"mvn could not resolve Apache Kafka {VERSION}: {_last_line(built.stdout)}"
                )
            (home / "done").touch()
    return f"{home / 'libs'}/*"


def programs_missing(*programs: str) -> Unavailable | None:
    """The reason why not all of these programs can be run here, if so."""
    missing = [program for program in programs if shutil.which(program) is None]
    return Unavailable(f"not on this machine: {', '.join(missing)}") if missing else None


def start_broker(
    port: int,
    directory: Path,
    overrides: Mapping[str, str] | None = None,
    output: Path | None = None,
    features: Mapping[str, int] | None = None,
) -> "subprocess.Popen[bytes]":
    """Start a broker on `port` (its controller takes the next one) with its log in `directory`.

    A new directory is formatted first, with other levels of `features` than the newest if they are given.
    The process is returned as soon as it runs: `wait_ready` tells when it serves. Its own log goes to
    `output`, by default `<directory>.out`.
    """
    jars = classpath()
    if isinstance(jars, Unavailable):
        raise RuntimeError(jars.reason)
    properties = directory.with_name(directory.name + ".properties")
    properties.write_text(_server_properties(port, directory, overrides or {}))
    if not (directory / "meta.properties").exists():
        format_storage(jars, properties, features or {})
    with (output or _output_of(directory)).open("wb") as log:
        return subprocess.Popen(
            ["java", *_HEAP, *_COLLECTOR, logging_flag(), "-cp", jars, "kafka.Kafka", str(properties)],
            stdout=log,
            stderr=subprocess.STDOUT,
        )


@contextmanager
def running(directory: Path) -> Generator[str]:
    """Run a broker with its files in `directory` for as long as this lasts; its bootstrap servers."""
    port = free_port()
    process = start_broker(port, directory / "data")
    try:
        wait_ready(process, directory / "data")
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def wait_ready(process: "subprocess.Popen[bytes]", directory: Path, timeout_s: float = 60.0) -> None:
    """Return once the broker of `directory` says that it has started.

    Fails if it ends or takes too long, which ends it: nobody else knows of it yet.
    """
    output = _output_of(directory)
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        text = output.read_text(errors="replace")
        if "Kafka Server started" in text:
            return
        if process.poll() is not None:
            raise RuntimeError(f"Apache Kafka ended with {process.returncode}:\n{text[-2000:]}")
        time.sleep(0.05)
    process.kill()
    process.wait()
    raise TimeoutError(f"Apache Kafka was not up after {timeout_s} s; see {output}")


def format_storage(jars: str, properties: Path, features: Mapping[str, int] | None = None) -> None:
    """Prepare the log directory that `properties` names, as a new cluster of one."""
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    while cluster.startswith("-"):  # The tool would take it for an option.
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    arguments = ["format", "--standalone", "-t", cluster, "-c", str(properties)]
    for name, level in (features or {}).items():
        arguments += ["--feature", f"{name}={level}"]
    done = run_tool("kafka.tools.StorageTool", *arguments, jars=jars)
    if done.returncode != 0:
        raise RuntimeError(f"formatting failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def run_tool(main_class: str, *arguments: str, jars: str | None = None) -> "subprocess.CompletedProcess[str]":
    """Run one of Kafka's command-line tools to its end and return what it said."""
    path = jars or classpath()
    if isinstance(path, Unavailable):
        raise RuntimeError(path.reason)
    command = [
        "java",
        "-Xmx256M",
        "-XX:TieredStopAtLevel=1",
        logging_flag(),
        "-cp",
        path,
        main_class,
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@contextmanager
def work_lock(name: str) -> Generator[None]:
    """Hold the file lock `.work/<name>.lock`, so that test workers build a shared thing once."""
    WORK.mkdir(exist_ok=True)
    with (WORK / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _output_of(directory: Path) -> Path:
    return directory.with_name(directory.name + ".out")


def default_flags() -> list[str]:
    """Java's flags as Kafka's own start script has them."""
    return [*_HEAP, *_COLLECTOR]


def logging_flag() -> str:
    """What makes Kafka write its log as `wait_ready` reads it."""
    return f"-Dlog4j2.configurationFile={WORK / f'apache-kafka-{VERSION}' / 'log4j2.properties'}"


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1] if text.strip() else "no output"


def _pom() -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
        for group, artifact, version in _DEPENDENCIES
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>everlog.tests</groupId><artifactId>apache-kafka</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>\n"
    )


def _server_properties(port: int, directory: Path, overrides: Mapping[str, str]) -> str:
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}"
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{port + 1}",
        "listeners": listeners,
        "advertised.listeners": listeners,
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "num.network.threads": "3",
        "num.io.threads": "8",
        "socket.send.buffer.bytes": "102400",
        "socket.receive.buffer.bytes": "102400",
        "socket.request.max.bytes": "104857600",
        "log.dirs": str(directory),
        "num.partitions": "1",
        "num.recovery.threads.per.data.dir": "2",
        "offsets.topic.replication.factor": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "log.retention.hours": "168",
        "log.segment.bytes": "1073741824",
        "log.retention.check.interval.ms": "300000",
        **overrides,
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def main() -> None:
    """Run a broker in the foreground: `python -m tests.apache_kafka PORT DIRECTORY [key=value ...]`."""
    port, directory, *settings = sys.argv[1:]
    overrides = dict(setting.split("=", 1) for setting in settings)
    process = start_broker(int(port), Path(directory), overrides)
    try:
        wait_ready(process, Path(directory))
        print(f"ready bootstrap=127.0.0.1:{port} pid={process.pid}", flush=True)
        process.wait()
    except KeyboardInterrupt:
        pass
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
