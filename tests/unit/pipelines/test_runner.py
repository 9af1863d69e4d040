import pytest

from everlog.model.errors import ConfigError
from everlog.pipelines.declared import Refresh
from everlog.pipelines.runner import Job, choose
from everlog.pipelines.streams import Stream

VOLUME = Stream("volume", "1 second", lambda: None)
COPIED = Stream("copied", "1 second", lambda: None)


def a_job(only: tuple[str, ...] = (), full: tuple[str, ...] = (), *, full_all: bool = False) -> Job:
    return Job("spark-pipeline.yml", "local", {}, {}, list(only), list(full), full_all)


def test_with_nothing_named_everything_runs() -> None:
    assert choose(a_job(), [VOLUME, COPIED], declared=True) == (Refresh(), [VOLUME, COPIED])
    assert choose(a_job(full_all=True), [], declared=True) == (Refresh(full_all=True), [])


def test_a_project_of_streams_alone_has_no_pass() -> None:
    assert choose(a_job(), [VOLUME], declared=False) == (None, [VOLUME])


def test_names_of_streams_and_of_declared_flows_are_told_apart() -> None:
    refresh, streams = choose(a_job(("orders",), ("volume", "revenue")), [VOLUME, COPIED], declared=True)

    assert refresh == Refresh(["orders"], ["revenue"])
    assert streams == [VOLUME]


def test_with_streams_alone_named_declared_flows_rest_and_the_other_way_round() -> None:
    assert choose(a_job(("copied",)), [VOLUME, COPIED], declared=True) == (None, [COPIED])
    assert choose(a_job(("orders",)), [VOLUME, COPIED], declared=True) == (Refresh(["orders"]), [])


def test_a_name_that_nothing_can_have_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="there is no stream 'volum' to refresh: expected some of copied, volume"
    ):
        choose(a_job(("volum",)), [VOLUME, COPIED], declared=False)
