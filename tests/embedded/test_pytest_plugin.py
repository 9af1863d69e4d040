"""The pytest plugin, in test runs of their own."""

import re
import time
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.e2e

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "testing.md"
_FOR_PYTEST = re.compile(
    r"^<!-- not run: pytest runs it -->\n```python\n(.*?)^```$", re.DOTALL | re.MULTILINE
)


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """A test run in a process of its own, with the plugin as pip has registered it."""
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments, timeout=120)


def test_a_test_gets_a_topic_a_producer_and_a_consumer(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import everlog

        names = set()

        def send_and_read(topic, producer, consumer):
            names.add(topic)
            producer.send(topic, b"hello").result(30)
            records = []
            while not records:
                records = consumer.poll(timeout=5)
            assert [(record.topic, record.value) for record in records] == [(topic, b"hello")]

        def test_one(everlog_topic, everlog_producer, everlog_consumer):
            send_and_read(everlog_topic, everlog_producer, everlog_consumer)

        def test_other(everlog_topic, everlog_producer, everlog_consumer):
            (first,) = names
            send_and_read(everlog_topic, everlog_producer, everlog_consumer)
            assert len(names) == 2
            with everlog.Admin(everlog_producer.settings.bootstrap_servers) as admin:
                assert first not in admin.list_topics()
        """
    )
    run(pytester).assert_outcomes(passed=2)


def test_a_test_may_delete_its_topic_and_one_that_stops_the_broker_is_not_waited_for(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import everlog

        def test_delete(everlog_topic, everlog_bootstrap):
            with everlog.Admin(everlog_bootstrap) as admin:
                admin.delete_topics([everlog_topic])

        def test_stop(everlog_topic, everlog_cluster):
            everlog_cluster.brokers[0].stop()
        """
    )
    began = time.monotonic()
    run(pytester).assert_outcomes(passed=2, errors=1)
    assert time.monotonic() - began < 40


def test_the_cluster_is_one_for_the_session_and_any_client_can_use_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from confluent_kafka.admin import AdminClient

        seen = []

        def test_one(everlog_cluster, everlog_bootstrap):
            seen.append(everlog_bootstrap)
            assert everlog_bootstrap == everlog_cluster.bootstrap_servers
            assert AdminClient({"bootstrap.servers": everlog_bootstrap}).list_topics(timeout=30).brokers

        def test_other(everlog_bootstrap):
            assert seen == [everlog_bootstrap]
        """
    )
    run(pytester).assert_outcomes(passed=2)


def test_pytest_does_not_compile_the_asserts_of_everlog_anew(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("from everlog import Producer")
    pytester.makepyfile(
        """
        import sys

        def test_one(everlog_topic, everlog_producer):
            kinds = {
                name: type(module.__loader__).__name__
                for name, module in sys.modules.items()
                if name.startswith("everlog.") and name != "everlog.embedded.pytest_plugin"
            }
            del kinds["everlog.embedded"]  # On the way to the plugin.
            assert len(kinds) > 200
            assert set(kinds.values()) == {"SourceFileLoader", "ExtensionFileLoader"}
        """
    )
    run(pytester).assert_outcomes(passed=1)


def test_ini_and_marker_choose_settings_and_topic(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        """
        [pytest]
        everlog_processes = true
        everlog_settings =
            num.partitions = 5
            auto.create.topics.enable = false
        addopts = --strict-markers
        """
    )
    pytester.makepyfile(
        """
        import pytest, everlog

        @pytest.mark.everlog_topic(partitions=3, configs={"cleanup.policy": "compact"})
        def test_marked(everlog_cluster, everlog_bootstrap, everlog_topic):
            everlog_cluster.brokers[0].pause()
            everlog_cluster.brokers[0].resume()
            with everlog.Admin(everlog_bootstrap) as admin:
                assert len(admin.describe_topics([everlog_topic])[everlog_topic].partitions) == 3
                admin.create_topic("plain")
                assert len(admin.describe_topics(["plain"])["plain"].partitions) == 5
        """
    )
    run(pytester).assert_outcomes(passed=1)


def test_a_run_that_uses_no_fixture_imports_nothing_of_the_clients(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it():
            assert not [name for name in sys.modules if name.startswith(("everlog.client", "everlog.broker"))]
        """
    )
    run(pytester).assert_outcomes(passed=1)


def test_the_examples_of_the_guide_pass_and_a_test_written_for_a_container_does_too(
    pytester: pytest.Pytester,
) -> None:
    """Their cluster has three brokers, as the guide says that the fixture of its options may say."""
    tests, fixture = _FOR_PYTEST.findall(GUIDE.read_text())
    pytester.makeconftest(
        "import pytest\n\n"
        '@pytest.fixture(scope="session")\ndef everlog_cluster_options():\n    return {"brokers": 3}\n\n'
        + fixture
    )
    pytester.makepyfile(
        tests
        + """
import confluent_kafka
import everlog


def test_of_another_client(kafka, everlog_topic):
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka})
    producer.produce(everlog_topic, b"one coffee")
    assert producer.flush(30) == 0


def test_the_options_are_those_of_the_cluster(everlog_cluster):
    with everlog.Admin(everlog_cluster.bootstrap_servers) as admin:
        assert len(admin.describe_cluster().brokers) == 3
"""
    )
    run(pytester).assert_outcomes(passed=4)
