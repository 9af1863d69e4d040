from pathlib import Path

import pytest

from everlog.model.errors import ConfigError
from everlog.pipelines.project import Topic, find_project, load_project

SPEC = """
name: shop
storage: storage
libraries:
  - glob:
      include: transformations/**
configuration:
  everlog.bootstrap.servers: 10.0.0.1:9092
"""


def a_project(root: Path, spec: str = SPEC, extras: str = "", flow: str = "transformations/a.sql") -> Path:
    (root / "spark-pipeline.yml").write_text(spec)
    if extras:
        (root / "everlog.toml").write_text(extras)
    if flow:
        (root / flow).parent.mkdir(parents=True, exist_ok=True)
        (root / flow).write_text("CREATE MATERIALIZED VIEW a AS SELECT 1")
    return root / "spark-pipeline.yml"


def test_a_storage_that_is_a_path_is_below_the_project(tmp_path: Path) -> None:
    project = load_project(a_project(tmp_path))

    assert project.storage == f"file://{tmp_path}/storage"
    assert project.local_storage == tmp_path / "storage" == project.state


def test_a_storage_elsewhere_keeps_its_uri_and_the_state_stays_here(tmp_path: Path) -> None:
    project = load_project(a_project(tmp_path, SPEC.replace("storage: storage", "storage: s3a://lake/shop")))

    assert project.storage == "s3a://lake/shop"
    assert project.local_storage is None
    assert project.state == tmp_path / ".everlog"


def test_only_flows_that_are_not_declared_may_have_a_blank_in_the_path_of_their_storage(
    tmp_path: Path,
) -> None:
    root = tmp_path / "my pröject"
    root.mkdir()
    streams = load_project(a_project(root, flow="streams/a.py"))

    assert streams.storage == f"file://{root}/storage"
    assert streams.local_storage == root / "storage"
    with pytest.raises(ConfigError, match=r"my pröject/storage', expected a path without ' '"):
        load_project(a_project(root))
    elsewhere = SPEC.replace("storage: storage", f"storage: {tmp_path}/pröject")
    assert load_project(a_project(root, elsewhere)).local_storage == tmp_path / "pröject"


def test_a_project_is_found_from_a_directory_below_it(tmp_path: Path) -> None:
    a_project(tmp_path)

    assert find_project(tmp_path / "transformations").root == tmp_path
    assert find_project(tmp_path / "spark-pipeline.yml").bootstrap == "10.0.0.1:9092"


def test_topics_come_from_everlog_toml(tmp_path: Path) -> None:
    extras = """
        title = "Shop"
        [[topics]]
        name = "orders"
        partitions = 3
        configs = { "retention.ms" = 1000 }
        data = "orders.jsonl"
        [[topics]]
        name = "large"
    """
    (tmp_path / "orders.jsonl").write_text("{}")

    project = load_project(a_project(tmp_path, extras=extras))

    assert project.title == "Shop"
    assert project.topics == (
        Topic("orders", 3, {"retention.ms": "1000"}, tmp_path / "orders.jsonl"),
        Topic("large"),
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("name: [", "line 1"),
        ("- a", "expected fields such as"),
        ("name: shop", "has no 'storage': it is needed"),
        ("name: 3\nstorage: x", "'name' is 3, expected text"),
        (f"{SPEC}\ncolour: red", "has the field 'colour': expected name, storage"),
        (SPEC.replace("10.0.0.1:9092", "9092"), "configuration 'everlog.bootstrap.servers' is 9092"),
        (SPEC.replace("transformations/**", "a/*/b.py"), "'a/*/b.py', expected a file, or a folder"),
        (SPEC.replace("- glob:", "- globe:"), "expected a list of"),
    ],
)
def test_a_bad_yml_is_named_with_its_line_or_field(tmp_path: Path, spec: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_project(a_project(tmp_path, spec))

    assert message in str(caught.value)
    assert str(tmp_path / "spark-pipeline.yml") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("extras", "message"),
    [
        ("title = ", "everlog.toml cannot be read"),
        ("topics = 3", "expected [[topics]] with a name"),
        ("[[topics]]\npartitions = 1", "expected a table with a name"),
        ('[[topics]]\nname = "a"\npartitions = 0', "topic a has partitions 0"),
        ('[[topics]]\nname = "a"\ndata = "none.jsonl"', "expected a .jsonl or .py file that exists"),
    ],
)
def test_a_bad_everlog_toml_is_named(tmp_path: Path, extras: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_project(a_project(tmp_path, extras=extras))

    assert message in str(caught.value)


def test_a_project_without_flows_is_refused_and_one_with_streams_alone_is_not(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no flow"):
        load_project(a_project(tmp_path, flow=""))

    a_project(tmp_path, flow="streams/a.py")

    assert [path.name for path in load_project(tmp_path / "spark-pipeline.yml").stream_files()] == ["a.py"]


def test_a_file_that_cannot_be_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"notes\.txt is in `libraries` and cannot be run"):
        load_project(a_project(tmp_path, flow="transformations/notes.txt"))


def test_no_project_is_told_with_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="everlog pipeline init NAME"):
        find_project(tmp_path)
    with pytest.raises(ConfigError, match="does not exist"):
        find_project(tmp_path / "nowhere")
