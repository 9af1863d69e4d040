"""Building and starting the drivers of clients that are not Python's, each by its own package manager.

Sources are copied into `.work/` and built there once; the build is named by what went into it.
"""

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp

from tests.apache_kafka import WORK, Unavailable, programs_missing, work_lock
from tests.conformance.clients.driver import ALL_OPERATIONS, DrivenClient
from tests.conformance.clients.face import Client
from tests.conformance.scenarios import Traits

_SOURCES = Path(__file__).resolve().parent.parent
_KAFKAJS_OPERATIONS = ALL_OPERATIONS - {
    "list_max_timestamp",
    "describe_log_dirs",
    "describe_topic_partitions",
}


def java(bootstrap: str) -> Client | Unavailable:
    """Apache Kafka's own Java client."""
    command = java_command()
    if isinstance(command, Unavailable):
        return command
    return _connected("kafka-clients", command, Traits(), bootstrap)


def go(bootstrap: str) -> Client | Unavailable:
    """The Go client franz-go."""
    command = go_command()
    if isinstance(command, Unavailable):
        return command
    return _connected("franz-go", command, Traits(end_for_no_time=True), bootstrap)


def node(bootstrap: str) -> Client | Unavailable:
    """KafkaJS, which has gzip built in and leaves the other codecs to plug-ins."""
    command = node_command()
    if isinstance(command, Unavailable):
        return command
    traits = Traits(codecs=("none", "gzip"), null_headers=False, end_for_no_time=True)
    return _connected("kafkajs", command, traits, bootstrap, kafkajs=True)


def java_command() -> list[str] | Unavailable:
    """How to run the Java driver, built by Maven."""
    home = _built(
        "java",
        ("java", "mvn"),
        ["mvn", "-B", "-q", "compile", "dependency:copy-dependencies", "-DoutputDirectory=libs"],
    )
    if isinstance(home, Unavailable):
        return home
    classes = f"{home}/target/classes:{home}/libs/*"
    return ["java", "-Xmx512M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classes, "Driver"]


def go_command() -> list[str] | Unavailable:
    """How to run the Go driver, built with Go's module client."""
    home = _built("go", ("go",), ["go", "build", "-o", "driver", "."])
    return home if isinstance(home, Unavailable) else [f"{home}/driver"]


def node_command() -> list[str] | Unavailable:
    """How to run the driver of KafkaJS, installed by npm."""
    home = _built("node", ("node", "npm"), ["npm", "ci", "--no-audit", "--no-fund", "--silent"])
    return home if isinstance(home, Unavailable) else ["node", f"{home}/driver.js"]


def _connected(
    name: str, command: Sequence[str], traits: Traits, bootstrap: str, kafkajs: bool = False
) -> DrivenClient:
    operations = _KAFKAJS_OPERATIONS if kafkajs else ALL_OPERATIONS
    log = Path(mkdtemp(prefix="everlog-driver-")) / "stderr"
    client = DrivenClient(name, command, traits, operations, log)
    client.connect(bootstrap)
    return client


def _built(language: str, programs: tuple[str, ...], command: Sequence[str]) -> Path | Unavailable:
    if isinstance(missing := programs_missing(*programs), Unavailable):
        return missing
    source = _SOURCES / language
    home = WORK / f"driver-{language}-{_digest(source)}"
    with work_lock(f"driver-{language}"):
        if not (home / "done").exists():
            shutil.copytree(source, home, dirs_exist_ok=True)
            built = subprocess.run(command, cwd=home, capture_output=True, text=True)
            if built.returncode != 0:
                said = (built.stdout + built.stderr).strip()[-500:]
                return Unavailable(f"{' '.join(command[:2])} did not build the {language} driver: {said}")
            (home / "done").touch()
    return home


def _digest(source: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(source)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]
