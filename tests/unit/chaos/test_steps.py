"""Steps as people write them."""

import pytest

from everlog.chaos.steps import SCENARIOS, Step, Verb, Who, parse_step, parse_steps
from everlog.model.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("load:2.5", Step(Verb.LOAD, None, 2.5)),
        ("load", Step(Verb.LOAD, None, 5)),
        ("kill:leader", Step(Verb.KILL, Who.LEADER)),
        ("pause:controller:12", Step(Verb.PAUSE, Who.CONTROLLER, 12)),
        ("scale:4", Step(Verb.SCALE, None, 4)),
        ("jump-clock:leader:-3600", Step(Verb.JUMP_CLOCK, Who.LEADER, -3600)),
    ],
)
def test_a_step_is_read_and_written(text: str, step: Step) -> None:
    assert parse_step(text) == step
    assert parse_step(str(step)) == step


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("explode", "step 'explode' cannot be read: expected one of load, slow-disk"),
        ("kill", "step 'kill' says '': expected kill:leader|follower|controller"),
        ("kill:everybody", "says 'everybody': expected kill:leader"),
        ("kill:leader:3", "says '3' too much: end a broker with SIGKILL"),
        ("load:soon", "says 'soon': expected a number of seconds"),
        ("load:-1", "says -1: expected 0 seconds or more"),
        ("load:1:2", "says '2' too much"),
    ],
)
def test_a_step_that_cannot_be_read_says_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_step(text)

    assert message in str(error.value)


def test_every_scenario_ends_whole_and_can_be_written_as_steps() -> None:
    for scenario in SCENARIOS.values():
        texts = [str(step) for step in scenario.steps]
        assert parse_steps(texts) == list(scenario.steps)
        assert "heal" in " ".join(texts) or scenario.name == "rolling", scenario.name
