"""D2: a slice of the kills of `python -m tests.spark.kills`: after each the output holds every row once."""

import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.spark.kills.campaign import COMMIT_STEPS, TASK_STEPS, Campaign, Report, any_kill


@pytest.fixture
def folder(tmp_path: Path) -> Generator[Path]:
    """Where a campaign keeps what it needs."""
    yield tmp_path / "kills"
    shutil.rmtree(tmp_path / "kills", ignore_errors=True)


def check(report: Report, kills: int) -> None:
    assert report.kills.total() == kills
    assert report.written > 0
    assert (report.missing, report.doubled, report.left_open) == ([], [], [])


@pytest.mark.parametrize("two_phase", [True, False])
def test_each_row_is_there_once_though_every_process_is_killed_at_every_step(
    folder: Path, two_phase: bool
) -> None:
    campaign = Campaign(folder, source="counted", two_phase=two_phase, seed=1)
    try:
        for step in (*TASK_STEPS, *COMMIT_STEPS):
            campaign.kill_at(step, "self")
        for step in ("task-prepared", "after-Hold", "deciding", "after-Decide", "after-Commit"):
            campaign.kill_at(step, "driver")
            campaign.kill_at(step, "broker")
        for _ in range(4):
            any_kill(campaign, driver=False)
        report = campaign.finish()
    finally:
        campaign.close()
    check(report, len(TASK_STEPS) + len(COMMIT_STEPS) + 14)
    assert report.restarts == 5


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_each_row_is_there_once_though_spark_is_killed(folder: Path) -> None:
    if shutil.which("java") is None:
        pytest.skip("no Java on this machine: Spark needs 17 or newer")
    campaign = Campaign(folder, source="files", two_phase=True, seed=1)
    try:
        campaign.kill_at("task-sent", "self")
        campaign.kill_at("deciding", "self")
        campaign.kill_at("after-Decide", "broker")
        campaign.kill_at("after-Decide", "driver")
        campaign.kill_sometime("worker")
        report = campaign.finish()
    finally:
        campaign.close()
    check(report, 5)
