"""Spark's own connector for Kafka, by Maven's ordinary client: its jars, to check ourselves against.

The jars are resolved once into `.work/` at the repository's root, as those of Apache Kafka are. Wanted is the
connector of the PySpark that is installed; where Maven does not have all of that release, older parts that
work with it.
"""

import shutil
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path

from tests.apache_kafka import WORK, Unavailable, programs_missing, work_lock

Artifact = tuple[str, str, str]

_KNOWN: tuple[Artifact, ...] = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)
"""Artifacts that work together and that even a mirror with holes has. Each is fetched by itself: what Spark's
build file says about where to look for the rest does not hold everywhere."""
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


@cache
def connector_jars() -> tuple[Path, ...] | Unavailable:
    """The jars that a session of PySpark needs for `format("kafka")`, or why they cannot be had here."""
    if isinstance(missing := programs_missing("java", "mvn"), Unavailable):
        return missing
    installed = version("pyspark")
    home = WORK / f"spark-kafka-{installed}"
    with work_lock(home.name):
        if not (home / "done").exists():
            of_this_release = (("org.apache.spark", "spark-sql-kafka-0-10_2.13", installed),)
            if _resolve(home, of_this_release, "") is not None:
                reason = _resolve(home, _KNOWN, _ALONE)
                if reason is not None:
                    return Unavailable(f"mvn could not resolve Spark's connector for Kafka: {reason}")
            (home / "done").touch()
    return tuple(sorted((home / "libs").glob("*.jar")))


def _resolve(home: Path, artifacts: tuple[Artifact, ...], limits: str) -> str | None:
    """Copy the jars of some artifacts to `libs`; the reason if that fails."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{release}</version>{limits}</dependency>"
        for group, artifact, release in artifacts
    )
    (home / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>everlog.tests</groupId><artifactId>spark-kafka</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>\n"
    )
    copied = subprocess.run(
        [
            "mvn",
            "-B",
            "-q",
            "dependency:copy-dependencies",
            "-DoutputDirectory=libs",
            "-DincludeScope=runtime",
        ],
        cwd=home,
        capture_output=True,
        text=True,
    )
    if copied.returncode == 0:
        return None
    lines = [line for line in copied.stdout.splitlines() if "Could not" in line or "Failed" in line]
    return lines[0].removeprefix("[ERROR] ") if lines else f"mvn ended with {copied.returncode}"
