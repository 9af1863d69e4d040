from pathlib import Path

from everlog.pipelines.project import Project
from everlog.pipelines.settings import run_settings


def a_project(tmp_path: Path, **configuration: str) -> Project:
    given = {key.replace("_", "."): value for key, value in configuration.items()}
    return Project(
        tmp_path,
        tmp_path / "spark-pipeline.yml",
        "shop",
        (tmp_path / "storage").as_uri(),
        (),
        configuration=given,
    )


def test_the_command_line_beats_the_project_and_the_project_beats_us(tmp_path: Path) -> None:
    project = a_project(tmp_path, spark_ui_enabled="true", orders_topic="a", spark_executor_cores="1")

    chosen = run_settings(project, "local[2]", "h:1", {"spark.executor.cores": "2", "orders.topic": "b"})

    assert chosen.startup["spark.ui.enabled"] == "true"
    assert chosen.startup["spark.executor.cores"] == "2"
    assert chosen.project["orders.topic"] == "b"


def test_the_servers_of_the_run_replace_those_of_the_project(tmp_path: Path) -> None:
    project = a_project(tmp_path, everlog_bootstrap_servers="old:1")

    assert run_settings(project, "local[2]", "new:1", {}).project["everlog.bootstrap.servers"] == "new:1"
    given = {"everlog.bootstrap.servers": "last:1"}
    assert run_settings(project, "local[2]", "new:1", given).project["everlog.bootstrap.servers"] == "last:1"


def test_the_catalog_is_in_the_storage_and_an_option_for_java_does_not_move_it(tmp_path: Path) -> None:
    project = a_project(tmp_path, spark_driver_extraJavaOptions="-Xss4m")

    chosen = run_settings(project, "local[2]", "h:1", {}).startup

    catalog = tmp_path / "storage" / "catalog"
    assert f"databaseName={catalog}/metastore" in chosen["spark.hadoop.javax.jdo.option.ConnectionURL"]
    assert chosen["spark.driver.extraJavaOptions"] == f'-Xss4m "-Dderby.system.home={catalog}"'


def test_a_cluster_elsewhere_is_not_told_to_call_back_on_loopback(tmp_path: Path) -> None:
    project = a_project(tmp_path)

    assert (
        run_settings(project, "spark://127.0.0.1:7077", "h:1", {}).startup["spark.driver.host"] == "127.0.0.1"
    )
    assert "spark.driver.host" not in run_settings(project, "spark://10.0.0.5:7077", "h:1", {}).startup
    assert "spark.driver.host" not in run_settings(project, "yarn", "h:1", {}).startup
