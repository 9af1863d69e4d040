"""The run of kills tells what is wrong: a row lost on purpose, a round without an end, too few kills."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.spark.kills import campaign
from tests.spark.kills.__main__ import main


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where runs keep their files."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def lines(ledger: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ledger.read_text().splitlines()]


def test_a_row_that_is_lost_is_in_the_ledger_and_the_files_are_kept(
    tmp_path: Path, scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.jsonl"

    code = main(["--small", "2", "--seed", "3", "--lose-row", "7", "--ledger", str(ledger)])

    assert code == 1
    found = lines(ledger)
    assert found
    assert {(one["losses"], one["duplicates"], one["low_latency"]) for one in found} == {(1, 0, False)}
    (kept,) = scratch.glob("everlog-kills-*")
    assert list(kept.glob("broker/**/output-*/*.log"))
    assert (kept / "driver" / "driver.log").exists()
    told = capsys.readouterr().out
    assert f"all files are kept in {kept}" in told
    assert "0 duplicates, 1 losses" in told


def test_a_round_that_comes_to_no_end_is_in_the_ledger_and_the_next_run_does_not_hide_it(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(campaign, "PATIENCE_S", 0.0)
    ledger = tmp_path / "ledger.jsonl"
    command = ["--small", "1", "--ledger", str(ledger)]

    assert main(command) == 1

    (one,) = lines(ledger)
    assert "RuntimeError: topic: " in one["problem"]
    assert len(list(scratch.glob("everlog-kills-*"))) == 1
    monkeypatch.undo()
    capsys.readouterr()
    assert main(command) == 1
    assert "1 kills wrong" in capsys.readouterr().out


def test_too_few_kills_are_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = ["--ledger", str(tmp_path / "ledger.jsonl")]

    assert main([*ledger, "--kills", "3", "--minutes", "0"]) == 1
    assert "TOO FEW: 3 of 3 kills were not made" in capsys.readouterr().out
    assert main([*ledger, "--summary"]) == 1
    with pytest.raises(SystemExit):
        main([*ledger, "--kills", "3", "--only", "delta-upset"])
    assert "no 3 kills of the plan are delta-upset; it has after-Abort, " in capsys.readouterr().err
