"""D2: a slice of the kills of `python -m tests.spark.kills`: after each the output holds every row once."""

import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.spark.java_here import require_java
from tests.spark.kills.campaign import Campaign, Report
from tests.spark.kills.class_archive import CHEAP
from tests.spark.kills.plan import COMMIT_STEPS, TASK_STEPS


@pytest.fixture
def folder(tmp_path: Path) -> Generator[Path]:
    """Where a campaign keeps what it needs."""
    yield tmp_path / "kills"
    shutil.rmtree(tmp_path / "kills", ignore_errors=True)


def check(report: Report, kills: int) -> None:
    assert report.kills.total() == kills
    assert report.counts["topic"].rows_in > 0
    assert (report.counts["topic"].right, report.left_open) == (True, [])


@pytest.mark.parametrize(
    ("two_phase", "kills"),
    [
        (
            True,
            [
                *(("task", step) for step in TASK_STEPS),
                *(("committer", step) for step in COMMIT_STEPS),
                ("broker", "after-Hold"),
                ("driver", "after-Decide"),
            ],
        ),
        (
            False,
            [
                ("task", "task-prepared"),
                ("broker", "deciding"),
                ("driver", "after-Decide"),
            ],
        ),
    ],
    ids=["two-phase", "time-out"],
)
def test_each_row_is_there_once_though_every_process_is_killed_at_every_step(
    folder: Path, two_phase: bool, kills: list[tuple[str, str]]
) -> None:
    campaign = Campaign(folder, spark=False, two_phase=two_phase, seed=1)
    try:
        campaign.round(kills)
        report = campaign.finish()
    finally:
        campaign.close()
    check(report, len(kills))
    assert report.restarts == sum(kind == "driver" for kind, _ in kills)


@pytest.mark.spark
@pytest.mark.xdist_group("java")
def test_each_row_is_there_once_though_spark_is_killed(folder: Path) -> None:
    require_java()
    campaign = Campaign(folder, seed=1, java=CHEAP)
    try:
        campaign.round([("task", "task-sent"), ("driver", "after-Decide")])
        report = campaign.finish()
    finally:
        campaign.close()
    check(report, 2)
