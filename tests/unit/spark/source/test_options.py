"""Options of the source: what they mean, which beats which, and what is refused by name."""

import pytest

from everlog.model.errors import ConfigError
from everlog.model.topics import TopicPartition
from everlog.spark.source.client_settings import tell_without_effect
from everlog.spark.source.offsets import AtTimestamp, AtTimestamps, Earliest, Latest, OfGroup, Specific
from everlog.spark.source.options import Assigned, Limits, Matching, SourceOptions, Subscribed, read_options

AT = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "orders"}


def batch(**options: str) -> SourceOptions:
    return read_options({**AT, **options}, streaming=False)


def stream(**options: str) -> SourceOptions:
    return read_options({**AT, **options}, streaming=True)


def one_of(**options: str) -> SourceOptions:
    """With another selection than `subscribe`."""
    return read_options({"kafka.bootstrap.servers": "127.0.0.1:9092", **options}, streaming=True)


def test_a_batch_reads_all_there_is_and_a_stream_what_comes() -> None:
    assert (batch().start, batch().end) == (Earliest(), Latest())
    assert stream().start == Latest()


def test_names_have_any_case() -> None:
    assert stream(MAXOFFSETSPERTRIGGER="7").limits.max_offsets == 7
    assert read_options({"KAFKA.Bootstrap.Servers": "a:1", "SUBSCRIBE": "x"}, streaming=True).client[
        "bootstrap_servers"
    ] == ("a:1")


def test_topics_are_chosen_in_one_of_three_ways() -> None:
    assert stream(subscribe=" a , b,a ").selection == Subscribed(("a", "b"))
    assert one_of(subscribePattern="or.*").selection == Matching("or.*")
    assert one_of(subscribePattern="(?<name>or).*").selection == Matching("(?P<name>or).*")
    for plain in (r"[a-d]+[0-9]", r"[^]x]\.[.\]_]*", r"\[\[", r"[\[]", "a&&b"):
        assert one_of(subscribePattern=plain).selection == Matching(plain)
    assert one_of(assign='{"a": [1, 0]}').selection == Assigned(
        (TopicPartition("a", 0), TopicPartition("a", 1))
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "got none of them"),
        ({"subscribe": "a", "assign": '{"a": [0]}'}, "got assign and subscribe"),
        ({"subscribe": ""}, "option subscribe is empty"),
        ({"subscribe": "a/b"}, "'a/b' may only have"),
        ({"subscribePattern": "[a-z&&[^b]].*"}, "has a set within a set, which only Java knows"),
        ({"subscribePattern": r"orders-[a-d[m-p]]"}, "has a set within a set, which only Java knows"),
        ({"subscribePattern": r"[\w&&\D]+"}, "has a set within a set, which only Java knows"),
        ({"subscribePattern": r"\p{L}+"}, "is not a regular expression: bad escape"),
        ({"subscribePattern": "("}, "option subscribePattern='(' is not a regular expression"),
        ({"assign": "[1]"}, "option assign='[1]': expected JSON such as"),
        ({"assign": '{"a": [-1]}'}, "topic 'a' has [-1]"),
        ({"assign": "{}"}, "names no partition"),
    ],
)
def test_another_choice_of_topics_is_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        one_of(**options)
    assert said in str(caught.value)


def test_one_moment_beats_moments_which_beat_offsets() -> None:
    offsets = {"startingOffsets": '{"orders": {"0": 23, "1": -2}}'}
    moments = {**offsets, "startingOffsetsByTimestamp": '{"orders": {"0": 5}}'}
    one = {**moments, "startingTimestamp": "9"}

    assert batch(**offsets).start == Specific(
        {TopicPartition("orders", 0): 23, TopicPartition("orders", 1): -2}
    )
    assert batch(**moments).start == AtTimestamps({TopicPartition("orders", 0): 5})
    assert batch(**one).start == AtTimestamp(9)
    assert batch(endingOffsets='{"orders": {"0": -1}}', endingTimestamp="7").end == AtTimestamp(7)
    assert stream(startingOffsets="group:kitchen").start == OfGroup("kitchen")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "latest"}, "option startingOffsets=latest is for streams"),
        ({"endingOffsets": "earliest"}, "option endingOffsets=earliest leaves nothing to read"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "option startingOffsets: -1 for orders-0"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "option endingOffsets: -2 for orders-0"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "partition '0' of 'orders' has -3"),
        ({"startingOffsets": '{"orders": {"0": "5"}}'}, "partition '0' of 'orders' has '5'"),
        ({"startingOffsets": '{"orders": [0]}'}, "topic 'orders' has [0]"),
        ({"startingOffsets": "{orders"}, "option startingOffsets='{orders' is not JSON"),
        ({"startingOffsets": "yesterday"}, "expected earliest, latest, group:NAME or JSON"),
        ({"startingOffsets": "group:"}, "expected group:NAME"),
        ({"startingTimestamp": "noon"}, "option startingTimestamp='noon': expected a whole number"),
        ({"startingOffsetsByTimestamp": '{"orders": {"0": -1}}'}, "milliseconds since 1970"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "expected one of error, latest"),
        ({"minPartitions": "0"}, "option minPartitions='0': expected a whole number of 1 or more"),
        ({"maxRecordsPerPartition": "many"}, "option maxRecordsPerPartition='many'"),
        ({"failOnDataLoss": "maybe"}, "option failOnDataLoss='maybe': expected true or false"),
        ({"failOnDatLoss": "true"}, "unknown option failOnDatLoss: did you mean failOnDataLoss?"),
        ({"bootstrap.servers": "a:1"}, "did you mean kafka.bootstrap.servers?"),
        ({"path": "orders"}, "load('orders'): topics have no path"),
        ({"valueSchema": "a INT"}, "option valueSchema goes with valueFormat"),
        ({"fetchOffset.numRetries": "x"}, "option fetchOffset.numRetries='x'"),
        ({"kafkaConsumer.pollTimeoutMs": "0"}, "option kafkaConsumer.pollTimeoutMs='0'"),
    ],
)
def test_what_a_batch_cannot_mean_is_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        batch(**options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    value = "7" if name == "endingTimestamp" else '{"orders": {"0": 7}}'
    with pytest.raises(ConfigError, match=f"option {name} is for batch queries only"):
        stream(**{name: value})


def test_filters_are_handed_down_only_to_who_asks_for_it() -> None:
    assert not batch().push_filters
    assert batch(pushFilters="true").push_filters


def test_a_batch_passes_over_limits_of_triggers() -> None:
    assert batch(maxOffsetsPerTrigger="5").limits == Limits()


def test_options_of_nobody_are_left_alone() -> None:
    assert batch(compression="zstd", topic="elsewhere").selection == Subscribed(("orders",))


def test_limits_of_a_trigger() -> None:
    given = stream(
        maxOffsetsPerTrigger="10", minOffsetsPerTrigger="3", maxTriggerDelay="2m", maxBytesPerTrigger="99"
    )
    assert given.limits == Limits(10, 3, 120_000, 99)
    assert stream(minOffsetsPerTrigger="3").limits.max_delay_ms == 15 * 60_000
    with pytest.raises(ConfigError, match="minOffsetsPerTrigger=11 is higher than maxOffsetsPerTrigger=10"):
        stream(maxOffsetsPerTrigger="10", minOffsetsPerTrigger="11")
    with pytest.raises(ConfigError, match="option maxTriggerDelay='soon'"):
        stream(maxTriggerDelay="soon")


def test_committed_data_is_read_unless_something_else_is_asked_for() -> None:
    assert stream().read_committed
    assert stream().client["isolation_level"] == "read_committed"
    assert not stream(readCommitted="false").read_committed
    assert not stream(**{"kafka.isolation.level": "read_uncommitted"}).read_committed
    with pytest.raises(ConfigError, match=r"readCommitted=true and kafka\.isolation\.level=read_uncommitted"):
        stream(readCommitted="true", **{"kafka.isolation.level": "read_uncommitted"})


def test_settings_of_clients_have_kafkas_names_and_their_own_types() -> None:
    client = stream(**{"kafka.fetch.max.bytes": "1000", "kafka.check.crcs": "false"}).client
    assert (client["fetch_max_bytes"], client["check_crcs"]) == (1000, False)
    assert client["max_partition_fetch_bytes"] == 8 * 1024 * 1024
    assert stream(**{"kafka.max.partition.fetch.bytes": "5"}).client["max_partition_fetch_bytes"] == 5


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("kafka.auto.offset.reset", "earliest", "kafka.auto.offset.reset is not supported"),
        ("kafka.key.deserializer", "X", "kafka.key.deserializer is not supported"),
        ("kafka.value.deserializer", "X", "kafka.value.deserializer is not supported"),
        ("kafka.enable.auto.commit", "true", "kafka.enable.auto.commit is not supported"),
        ("kafka.interceptor.classes", "X", "kafka.interceptor.classes is not supported"),
        ("kafka.fetch.max.byte", "1", "option kafka.fetch.max.byte: unknown setting"),
        ("kafka.fetch.max.bytes", "much", "option kafka.fetch.max.bytes='much': expected a whole number"),
        ("kafka.fetch.max.bytes", "-1", "option kafka.fetch.max.bytes: setting fetch_max_bytes=-1"),
        ("kafka.check.crcs", "1", "option kafka.check.crcs='1': expected true or false"),
        ("kafka.bootstrap.servers", " ", "option kafka.bootstrap.servers is needed"),
        ("kafka.ssl.truststore.location", "/a.jks", "only PEM files can be read here"),
        ("kafka.sasl.jaas.config", "com.Foo required;", "got the module Foo"),
    ],
)
def test_settings_that_are_unknown_wrong_or_not_the_users_are_refused(
    name: str, value: str, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        stream(**{name: value})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("client.dns.lookup", "use_all_dns_ips"),
        ("metadata.recovery.strategy", "rebootstrap"),
        ("socket.connection.setup.timeout.max.ms", "30000"),
        ("enable.metrics.push", "false"),
        ("metric.reporters", ""),
        ("ssl.protocol", "TLSv1.3"),
        ("ssl.enabled.protocols", "TLSv1.2,TLSv1.3"),
    ],
)
def test_settings_that_only_javas_clients_need_are_taken_with_a_warning(
    caplog: pytest.LogCaptureFixture, name: str, value: str
) -> None:
    tell_without_effect.cache_clear()

    assert stream(**{f"kafka.{name}": value}).client == stream().client
    assert f"option kafka.{name} has no effect: " in caplog.text
    assert stream(**{"kafka.socket.connection.setup.timeout.ms": "5"}).client[
        "socket_connection_setup_timeout_ms"
    ]


def test_a_group_id_is_taken_and_changes_nothing() -> None:
    assert stream(**{"kafka.group.id": "g"}, groupIdPrefix="p").commit_group is None


def test_javas_way_to_log_in_is_understood_and_never_shown() -> None:
    jaas = (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" '
        'password="se\\"cret;";'
    )
    login = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "SCRAM-SHA-256"}
    client = stream(**login, **{"kafka.sasl.jaas.config": jaas}).client
    assert (client["sasl_username"], client["sasl_password"]) == ("ann", 'se"cret;')

    pem = {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": "/ca.pem",
    }
    assert stream(**pem).client["ssl_cafile"] == "/ca.pem"

    with pytest.raises(ConfigError) as caught:
        stream(**login, **{"kafka.sasl.jaas.config": 'x.PlainLoginModule required pass="hush";'})
    assert "hush" not in str(caught.value)
