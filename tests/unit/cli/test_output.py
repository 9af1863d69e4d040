"""Reports as text and as JSON."""

import json

import pytest

from everlog.cli.output import Fields, Line, Report, Table, envelope, show


def test_numbers_stand_to_the_right_and_words_to_the_left() -> None:
    table = Table(("TOPIC", "RECORDS"), [("orders", 5), ("a", 1234)])

    assert table.lines() == [
        "TOPIC   RECORDS",
        "orders        5",
        "a          1234",
    ]


def test_what_is_absent_is_a_dash_and_truth_is_a_word() -> None:
    assert Table(("A", "B", "C"), [(None, True, 1.5)]).lines()[1] == "-  yes  1.50"


def test_a_table_without_rows_has_its_header() -> None:
    assert Table(("A", "B"), []).lines() == ["A  B"]


def test_fields_have_their_values_below_each_other() -> None:
    assert Fields([("id", "x"), ("partitions", 3)]).lines() == ["id          x", "partitions  3"]


def test_text_goes_to_stdout_and_errors_to_stderr_with_exit_code_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = show(Report({}, [Line("done a")], ["b failed"]), "topic delete", as_json=False)

    captured = capsys.readouterr()
    assert (code, captured.out, captured.err) == (1, "done a\n", "error: b failed\n")


def test_json_is_one_line_with_command_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    code = show(Report({"topics": ["ö"]}, [Line("not shown")]), "topic list", as_json=True)

    line = capsys.readouterr().out
    assert code == 0
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert json.loads(line) == {"command": "topic list", "version": 1, "topics": ["ö"]}


def test_the_envelope_stands_before_the_data() -> None:
    assert envelope("x", {"a": 1}) == '{"command": "x", "version": 1, "a": 1}'
