"""What a run is judged by: notes as they could have been, each wrong in one way."""

from pathlib import Path

import pytest

from everlog.chaos.chart import timeline
from everlog.chaos.measures import longest_silence_ms, percentile, rate_by_interval, unavailable_ms
from everlog.chaos.notes import TICKS_PER_MS, Acked, Handed, Notes, PartitionSeen, StepDone, new_notes
from everlog.chaos.page import figures, render_page
from everlog.chaos.verdict import Limits, broken_spans, judge
from everlog.sim.history import Kind, Operation, Outcome, Polled, Sent, read_history

TOPIC = "t-0"


def a_run(values: list[str], found: list[str], steps: list[StepDone] | None = None) -> Notes:
    """Records that were acknowledged one after the other, and those that the final read found."""
    notes = new_notes()
    for at, value in enumerate(values):
        start = at * 10 * TICKS_PER_MS
        sent = Sent(TOPIC, value, at)
        notes.recorder.add(Operation("load-0", Kind.SEND, Outcome.OK, start, start + 5, sends=(sent,)))
        notes.acked.append(Acked(at * 10.0, at * 10.0 + 2, 0))
    polls = tuple(Polled(TOPIC, values.index(value), value) for value in found)
    last = 10_000 * TICKS_PER_MS
    notes.recorder.add(
        Operation(
            "final", Kind.POLL, Outcome.OK, last, last + 1, polls=polls, partitions=(TOPIC,), final=True,
            read_committed=False,
        )
    )  # fmt: skip
    notes.steps += steps or []
    return notes


def test_a_run_that_lost_nothing_is_sound() -> None:
    verdict = judge(a_run(["a", "b", "c"], ["a", "b", "c"]), Limits())

    assert verdict.sound
    assert (verdict.acknowledged, verdict.lost, verdict.duplicated) == (3, 0, 0)
    assert verdict.latency_p50_ms == 2


def test_an_acknowledged_record_that_is_gone_is_lost_wherever_it_stood() -> None:
    in_the_middle = judge(a_run(["a", "b", "c"], ["a", "c"]), Limits())
    at_the_end = judge(a_run(["a", "b", "c"], ["a", "b"]), Limits())

    assert (in_the_middle.lost, at_the_end.lost) == (1, 1)
    assert not in_the_middle.sound
    assert [reason.partition(" ")[0] for reason in at_the_end.reasons] == ["C4"]


def test_a_record_that_is_there_twice_is_told() -> None:
    notes = a_run(["a", "b"], ["a", "b"])
    again = Polled(TOPIC, 7, "a")
    notes.recorder.add(
        Operation("member-1", Kind.POLL, Outcome.OK, 1, 2, polls=(again,), read_committed=False)
    )

    verdict = judge(notes, Limits())

    assert verdict.duplicated == 1
    assert not verdict.sound


def test_a_run_in_which_nothing_was_written_shows_nothing() -> None:
    assert judge(a_run([], []), Limits()).reasons == [
        "no record was acknowledged at all, so nothing was shown"
    ]


def test_what_took_too_long_or_was_waited_for_in_vain_is_a_reason() -> None:
    outage = StepDone("await-writable:60", 0, 9_000, figures={"unavailable ms": 9_000.0})
    vain = StepDone("heal:60", 0, 60_000, failed="brokers are behind")

    verdict = judge(a_run(["a"], ["a"], [outage, vain]), Limits(unavailable_ms=5_000))

    assert verdict.reasons == [
        "heal:60: brokers are behind",
        "some partition took no records for 9,000 ms, expected 5,000 at most",
    ]
    assert verdict.unavailable_ms == 9_000


def test_what_was_skipped_is_told_and_no_reason() -> None:
    skipped = StepDone("slow-disk:follower", 0, 1, skipped="strace is not installed")

    verdict = judge(a_run(["a"], ["a"], [skipped]), Limits())

    assert verdict.sound
    assert verdict.skipped == ["slow-disk:follower: strace is not installed"]


def test_a_pause_of_the_group_counts_from_the_change_on() -> None:
    steps = [StepDone("scale:3", 1_000, 1_500), StepDone("load:5", 1_500, 6_500)]
    notes = a_run(["a"], ["a"], steps)
    notes.handed += [Handed(at, 0, "m") for at in (900, 1_100, 4_100, 4_200, 6_450)]
    notes.handed += [Handed(at, 1, "m") for at in range(0, 6_500, 50)]

    verdict = judge(notes, Limits(pause_ms=2_500))

    assert verdict.pause_ms == 3_000
    assert [
        reason.startswith("some partition was read by nobody for 3,000 ms") for reason in verdict.reasons
    ] == [True]


def test_only_records_sent_after_a_strike_show_that_writes_go_on() -> None:
    acked = [Acked(90, 150, 0), Acked(110, 400, 0), Acked(120, 300, 1), Acked(130, 140, 2)]

    assert unavailable_ms(acked, 100, [0, 1, 3]) == {0: 300, 1: 200}


def test_silence_counts_to_the_end_for_a_partition_that_nobody_reads_again() -> None:
    handed = [Handed(0, 0, "m"), Handed(10, 0, "m"), Handed(500, 1, "m"), Handed(900, 1, "m")]

    assert longest_silence_ms(handed, 100, 1_000) == {0: 900, 1: 400}


def test_percentiles_and_rates() -> None:
    assert percentile([], 0.5) is None
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile(range(1, 101), 0.99) == 100
    assert rate_by_interval([0, 10, 260, 999, 5_000], 250, 1_000) == [8, 4, 0, 4, 0]


@pytest.fixture
def eventful() -> Notes:
    steps = [
        StepDone("slow-disk:follower", 100, 120, 2, "strace"),
        StepDone("kill:leader", 300, 310, 1, "SIGKILL"),
        StepDone("heal:60", 600, 800),
    ]
    notes = a_run(["a", "b"], ["a"], steps)
    notes.seen += [
        PartitionSeen(10, 0, 1, (1, 2, 3)),
        PartitionSeen(200, 0, 1, (1, 3)),
        PartitionSeen(305, 0, -1, ()),
        PartitionSeen(400, 0, 3, (3,)),
    ]
    return notes


def test_what_is_broken_stays_so_until_it_is_healed(eventful: Notes) -> None:
    assert broken_spans(eventful.steps) == [
        (100, 600, "slow-disk (broker 2)"),
        (300, 600, "kill (broker 1)"),
    ]


def test_a_page_has_all_of_it_and_loads_nothing(eventful: Notes, tmp_path: Path) -> None:
    verdict = judge(eventful, Limits())

    page = render_page("a <title>", {"brokers": "3"}, eventful, verdict)

    assert "a &lt;title&gt;" in page
    assert "kill:leader (1)" in page
    assert "nobody leads" in page
    for words in ("Not sound", *(name for _, name in figures(verdict))):
        assert words in page
    assert not [
        word
        for word in ("<script", "http:", "https:", "url(", "@import")
        if word in page.replace("http://www.w3.org/2000/svg", "")
    ]
    assert timeline(eventful).count('<rect class="isr') == 4


def test_the_history_of_a_run_can_be_read_back(eventful: Notes, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"

    eventful.recorder.history().write(path)

    assert read_history(path) == eventful.recorder.history()
