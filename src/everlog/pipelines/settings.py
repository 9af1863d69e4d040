"""The settings of Spark for a run of a project: ours, then the project's, then the command line's."""

from collections.abc import Mapping
from dataclasses import dataclass

from everlog.pipelines.project import BOOTSTRAP_KEY, STORAGE_KEY, Project
from everlog.spark.session import settings_for


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What Spark is started with, and what files of the project read from `spark.conf`."""

    startup: Mapping[str, str]
    """Settings of Spark, `spark.…`: some count only when it starts."""
    project: Mapping[str, str]
    """Keys of the project's own, such as `everlog.bootstrap.servers` and `orders.topic`."""


def run_settings(project: Project, master: str, bootstrap: str, given: Mapping[str, str]) -> RunSettings:
    """Settings for one run; `given` are the command line's, and beat all others but the storage."""
    catalog = project.state / "catalog"
    ours = {
        **settings_for(master),
        "spark.app.name": project.name,
        "spark.ui.enabled": "false",
        # Tables outlive the run: with the catalog in memory a second run would find their files in its way.
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={catalog / 'metastore'};create=true"
        ),
        "spark.sql.warehouse.dir": f"{project.storage}/warehouse",
        # Quoted: Spark cuts these options at blanks, as a shell does.
        "spark.driver.extraJavaOptions": f'"-Dderby.system.home={catalog}"',
        # One project seldom needs the 200 partitions of Spark's default on its own machine.
        **({"spark.sql.shuffle.partitions": "4"} if master.startswith("local") else {}),
        **_CONNECT,
    }
    wanted = {**ours, **project.configuration, **given}
    if "spark.driver.extraJavaOptions" in {**project.configuration, **given}:
        # Whoever adds an option of theirs does not mean to move the catalog's log into the current directory.
        wanted["spark.driver.extraJavaOptions"] += f" {ours['spark.driver.extraJavaOptions']}"
    own = {key: value for key, value in wanted.items() if not key.startswith("spark.")}
    own[BOOTSTRAP_KEY] = given.get(BOOTSTRAP_KEY, bootstrap)
    own[STORAGE_KEY] = project.storage
    return RunSettings({key: value for key, value in wanted.items() if key.startswith("spark.")}, own)


# Declared flows speak Spark Connect to a server inside the driver, on a port that nobody else has.
_CONNECT = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.sql.artifact.isolation.enabled": "true",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
    "spark.sql.connect.serverStacktrace.enabled": "false",
}
