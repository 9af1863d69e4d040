"""Settings of every session that the tests start: small, on loopback, with its files in one folder."""

from pathlib import Path


def local_settings(folder: Path) -> dict[str, str]:
    """What they have in common."""
    return {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
    }
