"""D2: a slice of the kills of `python -m tests.spark.kills`: after each the output holds every row once."""

import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.spark.kills.campaign import COMMIT_STEPS, TASK_STEPS, Campaign, Report


@pytest.fixture
def folder(tmp_path: Path) -> Generator[Path]:
    """Where a campaign keeps what it needs."""
    yield tmp_path / "kills"
    shutil.rmtree(tmp_path / "kills", ignore_errors=True)


def check(report: Report, kills: int) -> None:
    assert report.kills.total() == kills
    assert report.written > 0
    assert (report.missing, report.doubled, report.left_open) == ([], [], [])


@pytest.mark.parametrize(
    ("two_phase", "kills"),
    [
        (
            True,
            [
                *((step, "self") for step in (*TASK_STEPS, *COMMIT_STEPS)),
                ("after-Hold", "broker"),
                ("after-Decide", "driver"),
            ],
        ),
        (
            False,
            [
                ("task-prepared", "self"),
                ("deciding", "broker"),
                ("after-Decide", "driver"),
            ],
        ),
    ],
    ids=["two-phase", "time-out"],
)
def test_each_row_is_there_once_though_every_process_is_killed_at_every_step(
    folder: Path, two_phase: bool, kills: list[tuple[str, str]]
) -> None:
    campaign = Campaign(folder, source="counted", two_phase=two_phase, seed=1)
    try:
        for step, victim in kills:
            campaign.kill_at(step, victim)
        report = campaign.finish()
    finally:
        campaign.close()
    check(report, len(kills))
    assert report.restarts == sum(victim == "driver" for _, victim in kills)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_each_row_is_there_once_though_spark_is_killed(folder: Path) -> None:
    if shutil.which("java") is None:
        pytest.skip("no Java on this machine: Spark needs 17 or newer")
    campaign = Campaign(folder, source="files", two_phase=True, seed=1)
    try:
        campaign.kill_at("task-sent", "self")
        campaign.kill_at("after-Decide", "driver")
        report = campaign.finish()
    finally:
        campaign.close()
    check(report, 2)
