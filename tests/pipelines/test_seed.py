"""`everlog pipeline seed`: topics as they are declared, and data as it is written down."""

import json
from pathlib import Path

import everlog
from everlog.admin import ConfigResource
from everlog.cli.pipeline_seed import seed_project
from everlog.pipelines.project import Project, load_project
from tests.pipelines.command import read

EXTRAS = """
[[topics]]
name = "changes"
partitions = 2
configs = { "cleanup.policy" = "compact" }
data = "changes.jsonl"

[[topics]]
name = "made"
data = "made.py"

[[topics]]
name = "empty"
"""

CHANGES = """
{"key": "a", "value": {"id": 1, "t": [2]}, "partition": 1, "timestamp": 1700000000000, "headers": {"h": "v"}}
{"key": "a", "value": null, "partition": 1}

{"key": "b", "value": {"base64": "/wA="}, "partition": 1}
{"key": "c", "value": "plain", "partition": 1}
"""


def a_project(root: Path) -> Project:
    (root / "spark-pipeline.yml").write_text("name: shop\nstorage: storage\n")
    (root / "streams").mkdir()
    (root / "streams" / "none.py").write_text("")
    (root / "everlog.toml").write_text(EXTRAS)
    (root / "changes.jsonl").write_text(CHANGES)
    (root / "made.py").write_text(
        "def records(count):\n    return ({'value': {'n': n}} for n in range(count))\n"
    )
    return load_project(root / "spark-pipeline.yml")


def test_topics_are_created_once_and_data_is_written_each_time(tmp_path: Path) -> None:
    project = a_project(tmp_path)
    with everlog.Cluster() as cluster:
        servers = cluster.bootstrap_servers
        first = seed_project(project, servers, count=30).data["topics"]
        second = seed_project(project, servers, count=20).data["topics"]
        changes = read(servers, "changes")
        made = read(servers, "made")
        with everlog.Admin(servers) as admin:
            topics = admin.describe_topics(["changes", "empty"])
            [configs] = admin.describe_configs([ConfigResource.topic("changes")]).values()

    assert first == [
        {"name": "changes", "created": True, "records": 4},
        {"name": "made", "created": True, "records": 30},
        {"name": "empty", "created": True, "records": 0},
    ]
    assert [topic["created"] for topic in second] == [False, False, False]  # type: ignore[attr-defined]
    assert [len(topic.partitions) for topic in topics.values()] == [2, 1]
    assert configs["cleanup.policy"].value == "compact"
    assert len(made) == 50
    one, gone, packed, plain = changes[:4]
    assert (one.partition, one.key, one.timestamp, list(one.headers)) == (
        1,
        b"a",
        1700000000000,
        [("h", b"v")],
    )
    assert one.value == b'{"id":1,"t":[2]}'
    assert (gone.value, packed.value, plain.value) == (None, b"\xff\x00", b"plain")
    assert json.loads(made[0].value or b"") == {"n": 0}


def test_topics_alone_can_be_created(tmp_path: Path) -> None:
    project = a_project(tmp_path)
    with everlog.Cluster() as cluster:
        seed_project(project, cluster.bootstrap_servers, topics_only=True)

        assert read(cluster.bootstrap_servers, "made") == []
