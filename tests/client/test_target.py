from everlog.client.core.addresses import parse_bootstrap
from tests.client.conftest import NewTopic
from tests.client.log_reading import read_log


def test_a_topic_is_made_on_the_broker_under_test(bootstrap: str, new_topic: NewTopic) -> None:
    assert parse_bootstrap(bootstrap)
    assert read_log(bootstrap, new_topic(2)) == []
