import pytest

from everlog.model.errors import ConfigError
from everlog.pipelines import stream
from everlog.pipelines.streams import take_declared


def test_streams_are_declared_with_and_without_a_name() -> None:
    @stream
    def copied() -> object:
        return None

    @stream(name="volume.minute", trigger="500 milliseconds")
    def volume() -> object:
        return None

    first, second = take_declared()
    assert (first.name, first.trigger, first.declare) == ("copied", "1 second", copied)
    assert (second.name, second.trigger, second.declare) == ("volume.minute", "500 milliseconds", volume)
    assert take_declared() == []


def test_a_name_that_is_no_directory_or_is_taken_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"stream name '\.\./x' will not do"):
        stream(name="../x")(lambda: None)

    stream(name="one")(lambda: None)
    with pytest.raises(ConfigError, match="'one' is declared twice"):
        stream(name="one")(lambda: None)
    take_declared()
