"""A history as a file says the same as the history."""

from pathlib import Path

from everlog.sim.history import (
    Bounds,
    History,
    Kind,
    Lookup,
    Membership,
    Operation,
    Outcome,
    Pipeline,
    Polled,
    Promises,
    Recorder,
    Sent,
    read_history,
)

_EVERYTHING = Operation(
    process="p",
    kind=Kind.TXN,
    outcome=Outcome.INFO,
    start=5,
    end=None,
    sends=(Sent("t-0", "v", 3, "k", True, 17, "d", "in-0@4"), Sent("t-1", "w")),
    polls=(Polled("in-0", 4, "x", "k", True, 17, "d", "other-0@1"),),
    bounds=(Bounds("in-0", 9, 8, 2),),
    read_committed=False,
    rebalanced=("in-1",),
    partitions=("in-0",),
    membership=Membership("g", "m", 4, "consumer"),
    offsets={"in-0": 5},
    reset=True,
    epochs={"txn:t": 3},
    lookups=(Lookup("t-0", 17, 3),),
    amounts={"a": 5},
    final=True,
    note="what it says",
)


def test_a_history_survives_being_written_and_read(tmp_path: Path) -> None:
    plain = Operation("p", Kind.SEND, Outcome.OK, 1, 2, (Sent("t-0", "a", 0),))
    promises = Promises(
        idempotent=False,
        compacted=("t-0",),
        delete_retention_ms=7,
        ticks_per_ms=1000,
        pipelines=(Pipeline("g", ("in-0",), ("out-0", "out-1")),),
        total=100,
        longest_silence_ms=3,
    )
    recorder = Recorder(promises)
    recorder.add(plain)
    recorder.extend([_EVERYTHING])

    recorder.history().write(tmp_path / "history.jsonl")

    assert read_history(tmp_path / "history.jsonl") == History((plain, _EVERYTHING), promises)


def test_what_has_its_default_is_left_out_of_the_file(tmp_path: Path) -> None:
    History((Operation("p", Kind.ASSIGN, Outcome.OK, 1, 2),)).write(tmp_path / "history.jsonl")

    assert (tmp_path / "history.jsonl").read_text() == (
        '{}\n{"end": 2, "kind": "assign", "outcome": "ok", "process": "p", "start": 1}\n'
    )
