"""The options of Spark's formats: each one in the code is in its guide, and each one there is in the code."""

import re
from collections.abc import Iterable
from pathlib import Path

import pyspark
import pytest

from everlog.spark.session import LOW_LATENCY
from everlog.spark.sink import options as sink
from everlog.spark.source import options as source
from everlog.spark.table import options as table
from everlog.values import FORMATS, SETTINGS

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
SERVERS = "kafka.bootstrap.servers"
_NAMED = re.compile(r"`([^`]+)`")


def options_of(guide: str) -> set[str]:
    """The names in the first column of each table of options."""
    found: set[str] = set()
    within = False
    for line in (GUIDES / guide).read_text().splitlines():
        if line.startswith("| option |"):
            within = True
        elif not line.startswith("|"):
            within = False
        elif within:
            found.update(_NAMED.findall(line.split("|")[1]))
    return found


@pytest.mark.parametrize(
    ("guide", "known"),
    [
        ("spark-source.md", {*source.NAMES, SERVERS, "kafka.group.id", "kafka.…", "value.…"}),
        (
            "spark-sink.md",
            {*sink.NAMES, SERVERS, "kafka.transaction.timeout.ms", "kafka.…"}
            | {name for names in SETTINGS.values() for name in names} - {"timeZone", "avroPrefix"},
        ),
        ("tables.md", {*table.NAMES, "table.…", "value.…", "kafka.…"}),
    ],
)
def test_a_guide_has_the_options_that_the_code_has(guide: str, known: Iterable[str]) -> None:
    assert options_of(guide) == set(known)


def test_each_value_format_and_setting_of_one_is_told() -> None:
    text = (GUIDES / "spark-source.md").read_text()
    reading = {name for names in SETTINGS.values() for name in names} - {"schemaId"}
    assert [name for name in FORMATS if f"`{name}`" not in text] == []
    assert [name for name in sorted(reading) if f"`value.{name}`" not in text] == []


def test_the_settings_for_low_latency_are_those_of_the_guide() -> None:
    text = (GUIDES / "spark-sink.md").read_text().replace("`<br>`", "")
    section = text.partition("## Low latency")[2]
    told = dict(re.findall(r"`(spark[\w.]+)=([\w.]+)`", section.partition("\n\nIt also has")[0]))
    assert told == dict(LOW_LATENCY)


def test_the_jar_for_s3_is_of_the_version_of_the_hadoop_that_comes_with_spark() -> None:
    [jar] = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    text = (GUIDES / "spark-cluster.md").read_text()

    assert jar.name in text
    version = jar.stem.removeprefix("hadoop-client-api-")
    assert re.findall(r"hadoop-aws:([\d.]+)", text) == [version]
