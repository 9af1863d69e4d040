"""The comparison of Python clients: ratios of runs that followed each other, floors, what is kept."""

from dataclasses import replace
from pathlib import Path

from bench.clients import report
from bench.clients.jobs import WORKS
from bench.clients.readers import READERS
from bench.clients.samples import Results, Sample
from bench.clients.senders import SENDERS
from bench.machine import Machine


def results(ours: list[float], theirs: list[float], foreign_cores: float = 0.0) -> Results:
    """A run in which `everlog send` and confluent-kafka's produce had these rates."""
    rates = {"everlog send": ours, "confluent produce, callback": theirs}
    return Results(
        Machine("a cpu", 2, 8.0, "6.1", "3.11"),
        "2026-01-31",
        "python -m bench.clients",
        {"everlog": "0.1"},
        [
            Sample("everlog", "send", 100, program, repeat, 1000, rate, 1.5, foreign_cores)
            for program, taken in rates.items()
            for repeat, rate in enumerate(taken)
        ],
    )


def test_a_ratio_is_the_median_of_those_within_a_repeat() -> None:
    # The machine was twice as fast in the second repeat, for both.
    found = results([300, 600, 330], [100, 200, 100])

    ratio = found.ratio("everlog", "send", 100, "everlog send", "confluent produce, callback")

    assert ratio is not None
    assert (ratio.median, ratio.least, ratio.most) == (3.0, 3.0, 3.3)
    assert found.ratio("everlog", "send", 100, "everlog send", "kafka-python send") is None


def test_what_theirs_costs_in_cpu_is_told_beside_the_rate() -> None:
    found = results([300], [100])
    found.samples[1] = replace(found.samples[1], cpu_s_per_million=6.0)

    cpu = found.cpu_ratio("everlog", "send", 100, "everlog send", "confluent produce, callback")

    assert cpu is not None
    assert cpu.median == 4.0
    assert "4.00x as wanted" in report.text_tables(found)


def test_a_ratio_below_the_floor_is_told() -> None:
    assert report.missed(results([150], [100])) == []
    assert report.missed(results([90], [100])) == [
        "everlog send is 0.90x confluent produce, callback on everlog at 100 B, floor 1x"
    ]
    assert "BELOW THE FLOOR" in report.text_tables(results([90], [100]))
    assert "above the floor" in report.text_tables(results([120], [100]))
    assert "as wanted" in report.text_tables(results([150], [100]))


def test_columns_are_told_beside_what_a_bare_socket_does() -> None:
    found = results([150], [100])
    assert "bare sockets" not in report.text_tables(found), "a goal of records one by one"
    found.samples[0] = replace(found.samples[0], program="everlog send_arrow", records_per_s=300)
    bare = replace(found.samples[0], program="bare socket, send", records_per_s=400, cpu_s_per_million=0.5)
    found.samples.append(bare)

    text = report.text_tables(found)
    assert "bare socket, send is 4.00x confluent produce, callback, 3.00x by CPU" in text
    assert "everlog send_arrow has 75% of its rate" in text


def test_samples_of_a_busy_machine_are_marked() -> None:
    assert "PROVISIONAL" not in report.text_tables(results([150], [100]))
    assert "PROVISIONAL: 2 of 2 samples" in report.text_tables(results([150], [100], foreign_cores=0.5))


def test_what_is_kept_can_be_reported_again(tmp_path: Path) -> None:
    found = results([150, 160], [100, 110])
    found.save(tmp_path / "clients.json")

    assert report.text_tables(Results.load(tmp_path / "clients.json")) == report.text_tables(found)


def test_every_program_that_is_named_exists() -> None:
    for work in WORKS:
        programs = {program.name for program in work.programs}
        assert programs == set(SENDERS if work.kind == "send" else READERS)
        assert {goal.program for goal in work.goals} | {goal.against for goal in work.goals} <= programs
        assert work.bound in programs
