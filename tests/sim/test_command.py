"""`python -m everlog.sim`: seeds by hand, and histories that somebody wrote."""

import sys
from pathlib import Path

import pytest

from everlog.sim.__main__ import main
from everlog.sim.history import History, Kind, Operation, Outcome, Polled


def test_a_sound_seed_ends_with_0_and_says_what_it_did(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    history = tmp_path / "history.jsonl"
    monkeypatch.setattr(sys, "argv", ["sim", "--seed", "3", "--history", str(history)])

    assert main() == 0
    said = capsys.readouterr().out
    assert said.startswith("seed 3: ")
    assert "1 seeds, 0 failed" in said

    monkeypatch.setattr(sys, "argv", ["sim", "--check", str(history)])
    assert main() == 0
    assert capsys.readouterr().out == "no violations\n"


def test_a_broken_history_ends_with_1_and_says_what_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ghost = Operation("p", Kind.POLL, Outcome.OK, 0, 1, polls=(Polled("t-0", 0, "ghost"),))
    History((ghost,)).write(tmp_path / "history.jsonl")
    monkeypatch.setattr(sys, "argv", ["sim", "--check", str(tmp_path / "history.jsonl")])

    assert main() == 1
    assert capsys.readouterr().out.startswith("C11 unwritten read: 1\n")
