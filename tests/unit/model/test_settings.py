"""Every setting: what is taken, what is refused, and what the refusal says."""

import re
from pathlib import Path

import pytest

from everlog.model.errors import ConfigError
from everlog.model.settings import (
    BROKER_SETTINGS,
    TOPIC_SETTINGS,
    Kind,
    Layers,
    SecurityProtocol,
    Source,
    Update,
    broker_settings,
    check_topic_overrides,
    parse_broker_settings,
    parse_topic_value,
    topic_origins,
    topic_value,
)
from everlog.model.settings import broker_table as keys
from everlog.model.settings import topic_table as rows
from everlog.model.settings.broker_table import WITHOUT_EFFECT
from everlog.model.settings.kinds import Setting, counts_by_address
from everlog.model.settings.properties import parse_properties

LEAST = {"node.id": "1", "process.roles": "broker,controller"}
NOTHING = Layers({}, {}, {})


def problem(given: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        broker_settings({**LEAST, **given})
    return str(caught.value)


def test_every_default_is_a_value_that_its_own_setting_takes() -> None:
    everything = [*BROKER_SETTINGS.values(), *(row.setting for row in TOPIC_SETTINGS.values())]
    assert len(everything) > 130
    for setting in everything:
        text = setting.text(setting.default)
        if text is None or (setting.key, text) == ("process.roles", ""):
            continue  # Not set, or required.
        assert setting.parse(text) == setting.default, setting.key


def test_every_setting_says_what_it_means_in_a_sentence() -> None:
    for setting in [*BROKER_SETTINGS.values(), *(row.setting for row in TOPIC_SETTINGS.values())]:
        assert setting.meaning[0].isupper(), setting.key
        assert setting.meaning.endswith("."), setting.key


def test_a_topic_has_the_settings_that_kafka_4_4_gives_it() -> None:
    assert set(TOPIC_SETTINGS) == {
        "segment.bytes", "segment.ms", "segment.jitter.ms", "segment.index.bytes", "flush.messages",
        "flush.ms",
        "retention.bytes", "retention.ms", "max.message.bytes", "index.interval.bytes", "delete.retention.ms",
        "min.compaction.lag.ms", "max.compaction.lag.ms", "file.delete.delay.ms", "min.cleanable.dirty.ratio",
        "cleanup.policy", "unclean.leader.election.enable", "min.insync.replicas", "compression.type",
        "compression.gzip.level", "compression.lz4.level", "compression.zstd.level", "preallocate",
        "message.timestamp.type", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms",
        "leader.replication.throttled.replicas", "follower.replication.throttled.replicas",
        "remote.storage.enable", "local.retention.ms", "local.retention.bytes", "remote.copy.lag.ms",
        "remote.copy.lag.bytes", "remote.log.copy.disable", "remote.log.delete.on.disable",
        "errors.deadletterqueue.group.enable", "internal.segment.bytes",
    }  # fmt: skip


def test_every_setting_is_used_or_says_that_it_changes_nothing() -> None:
    source = Path(keys.__file__).parents[2]
    used = {
        name
        for path in source.rglob("*.py")
        if path.name != "broker_table.py"
        for name in re.findall(r"\b[A-Z][A-Z_0-9]+\b", path.read_text())
    }
    rows: dict[str, Setting[object]] = {
        name: row for name, row in vars(keys).items() if isinstance(row, Setting)
    }

    # What needs something that is not there has one value, and nothing to read.
    unused = {row.key for name, row in rows.items() if name not in used and row.needs is None}

    assert unused == WITHOUT_EFFECT
    assert all("Taken for Kafka's sake" in BROKER_SETTINGS[key].meaning for key in WITHOUT_EFFECT)


def test_a_broker_changes_while_it_runs_what_kafka_4_4_does() -> None:
    """Of what both have; those of listeners, where Kafka opens and closes ports, stay as they were."""
    of_topics = {twin.setting.key for row in TOPIC_SETTINGS.values() for twin in row.twins}
    assert {key for key, row in BROKER_SETTINGS.items() if row.update is not Update.READ_ONLY} == {
        # Kafka reads this one at its start only: it stands behind log.flush.interval.ms.
        *(of_topics - {"log.flush.scheduler.interval.ms"}),
        "log.cleaner.threads", "log.cleaner.dedupe.buffer.size", "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size", "log.cleaner.io.max.bytes.per.second", "log.cleaner.backoff.ms",
        "num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir", "background.threads",
        "max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides",
        "producer.id.expiration.ms", "transaction.partition.verification.enable",
        "leader.replication.throttled.rate", "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }  # fmt: skip


def test_limits_of_addresses_are_read_as_kafka_writes_them_and_by_the_addresses_that_sockets_have() -> None:
    settings = broker_settings(
        {**LEAST, "max.connections.per.ip.overrides": " 10.0.0.1:5 , 2001:DB8::0:7:20 "}
    )

    read = counts_by_address(settings[keys.MAX_CONNECTIONS_PER_IP_OVERRIDES])

    assert read == {"10.0.0.1": 5, "2001:db8::7": 20}
    assert counts_by_address(broker_settings(LEAST)[keys.MAX_CONNECTIONS_PER_IP_OVERRIDES]) == {}


def test_the_documents_defaults_hold() -> None:
    """L3 to L6, R2, R4 of the mission, and Kafka's own."""
    settings = broker_settings(LEAST)
    assert topic_value(rows.SEGMENT_BYTES, {}, NOTHING) == 1 << 30
    assert topic_value(rows.SEGMENT_MS, {}, NOTHING) == 7 * 24 * 3_600_000
    assert topic_value(rows.RETENTION_MS, {}, NOTHING) == 7 * 24 * 3_600_000
    assert topic_value(rows.RETENTION_BYTES, {}, NOTHING) == -1
    assert topic_value(rows.INDEX_INTERVAL_BYTES, {}, NOTHING) == 4096
    assert topic_value(rows.DELETE_RETENTION_MS, {}, NOTHING) == 24 * 3_600_000
    assert topic_value(rows.MAX_MESSAGE_BYTES, {}, NOTHING) == 1_048_588
    assert settings[keys.REPLICA_LAG_TIME_MAX_MS] == 30_000
    assert settings[keys.FETCH_MAX_BYTES] == 57_671_680
    assert settings[keys.SOCKET_REQUEST_MAX_BYTES] == 104_857_600
    assert settings[keys.MAX_CONNECTIONS] == 10_000
    assert settings[keys.MAX_CONNECTIONS_PER_IP] == 1_024
    assert settings[keys.AUTO_CREATE_TOPICS_ENABLE] is True


def test_kafkas_own_server_properties_is_understood() -> None:
    text = """
        # The settings of a stock file, with the listeners kept on this machine.
        process.roles=broker,controller
        node.id=1
        controller.quorum.bootstrap.servers=localhost:9093
        listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
        inter.broker.listener.name=PLAINTEXT
        advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
        controller.listener.names=CONTROLLER
        listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
        num.network.threads=3
        num.io.threads=8
        socket.send.buffer.bytes=102400
        socket.receive.buffer.bytes=102400
        socket.request.max.bytes=104857600
        log.dirs=/tmp/kraft-combined-logs
        num.partitions=1
        num.recovery.threads.per.data.dir=2
        offsets.topic.replication.factor=1
        share.coordinator.state.topic.replication.factor=1
        share.coordinator.state.topic.min.isr=1
        transaction.state.log.replication.factor=1
        transaction.state.log.min.isr=1
        log.retention.hours=168
        log.segment.bytes=1073741824
        log.retention.check.interval.ms=300000
    """
    settings = parse_broker_settings(text, {"num.partitions": "7"})

    assert settings.node_id == 1
    assert settings.log_dirs == ("/tmp/kraft-combined-logs",)
    assert settings[keys.NUM_PARTITIONS] == 7, "an override comes last"
    assert [listener.name for listener in settings.broker_listeners] == ["PLAINTEXT"]
    assert [str(listener) for listener in settings.advertised] == ["PLAINTEXT://localhost:9092"]
    assert settings.listeners[1].protocol is SecurityProtocol.PLAINTEXT


def test_an_unknown_setting_is_an_error_with_the_nearest_known_one() -> None:
    assert problem({"log.segment.byte": "1"}) == (
        "log.segment.byte is not a setting that this version knows; did you mean log.segment.bytes?"
    )


def test_a_topics_setting_in_a_brokers_file_is_an_error() -> None:
    assert "retention.ms is not a setting" in problem({"retention.ms": "5"})


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("num.partitions", "many", "num.partitions is 'many', expected a whole number, at least 1"),
        ("num.partitions", "0", "num.partitions is '0', expected a whole number, at least 1"),
        (
            "num.partitions",
            "2147483648",
            "num.partitions is '2147483648', expected a whole number, at least 1",
        ),
        ("delete.topic.enable", "yes", "delete.topic.enable is 'yes', expected true or false"),
        ("log.cleaner.min.cleanable.ratio", "nan", "expected a number from 0 to 1"),
        ("log.cleanup.policy", "shred", "expected a comma-separated list of compact, delete"),
        ("log.cleanup.policy", "delete,delete", "without repetitions"),
        ("compression.type", "lzma", "expected one of uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("compression.gzip.level", "0", "expected a whole number from 1 to 9, or -1"),
        ("remote.log.storage.system.enable", "true", "need tiered storage, which this version does not have"),
        ("security.inter.broker.protocol", "SSL", "need TLS and SASL, which this version does not have"),
        ("max.connections.per.ip.overrides", "10.0.0.1", "expected a comma-separated list of address:count"),
        ("max.connections.per.ip.overrides", "10.0.0.1:", "expected a comma-separated list of address:count"),
        ("max.connections.per.ip.overrides", "10.0.0.1:-1", "counts from 0"),
        ("max.connections.per.ip.overrides", "10.0.0.1:2147483648", "counts from 0"),
        ("max.connections.per.ip.overrides", "10.0.0.1:1,,::1:1", "expected a comma-separated list"),
        ("max.connections.per.ip.overrides", "::1:1,0:0::1:2", "each address once"),
        ("max.connections.per.ip.overrides", "kiosk:1", "max.connections.per.ip.overrides is 'kiosk:1'"),
        ("process.roles", "broker", "expected controller.quorum.voters or"),
        ("process.roles", "zookeeper", "expected a comma-separated list of broker, controller"),
        ("controller.quorum.voters", "1@a:9093,2@b:9093", "expected one on which the other nodes reach"),
        ("controller.quorum.voters", "2@b:9093", "expected this controller, 1, among them"),
        ("controller.quorum.voters", "1@a:9093,1@b:9093", "names a node twice"),
        ("controller.quorum.voters", "a:9093", "expected id@host:port"),
        ("listeners", "PLAINTEXT://127.0.0.1", "expected NAME://host:port"),
        ("listeners", "PLAINTEXT://127.0.0.1:70000", "expected 0 to 65535"),
        ("listeners", "INSIDE://127.0.0.1:1", "listener.security.protocol.map does not name"),
        ("listeners", "PLAINTEXT://127.0.0.1:1,PLAINTEXT://127.0.0.1:2", "expected each name once"),
        ("listeners", "SSL://127.0.0.1:1", "this version serves no other"),
        ("advertised.listeners", "SSL://127.0.0.1:1", "expected one of the listeners' names: PLAINTEXT"),
        ("advertised.listeners", "PLAINTEXT://0.0.0.0:9092", "expected an address that they can reach"),
        (
            "inter.broker.listener.name",
            "SSL",
            "inter.broker.listener.name is 'SSL', expected one of PLAINTEXT",
        ),
        ("controller.listener.names", "PLAINTEXT", "expected one that serves clients"),
        ("listener.security.protocol.map", "PLAINTEXT:FOO", "expected NAME:PROTOCOL"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_key_value_and_what_was_expected(
    key: str, value: str, expected: str
) -> None:
    assert expected in problem({key: value})


@pytest.mark.parametrize("missing", ["node.id", "process.roles"])
def test_what_is_required_must_be_there(missing: str) -> None:
    with pytest.raises(ConfigError, match=missing):
        broker_settings({key: value for key, value in LEAST.items() if key != missing})


@pytest.mark.parametrize("host", ["", "0.0.0.0", "10.1.2.3", "[::]", "example.org"])
def test_a_plaintext_listener_that_others_can_reach_is_refused_unless_allowed(host: str) -> None:
    given = {"listeners": f"PLAINTEXT://{host}:9092", "advertised.listeners": "PLAINTEXT://here:9092"}

    assert "allow.insecure.listener=true" in problem(given)

    settings = broker_settings({**LEAST, **given, "allow.insecure.listener": "true"})
    assert settings.advertised[0].host == "here"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.8.8.8"])
def test_a_loopback_listener_needs_no_permission(host: str) -> None:
    settings = broker_settings({**LEAST, "listeners": f"PLAINTEXT://{host}:0"})

    assert settings.listeners[0].port == 0


def test_by_default_a_node_listens_on_this_machine_only() -> None:
    assert str(broker_settings(LEAST).listeners[0]) == "PLAINTEXT://127.0.0.1:9092"


def test_log_dirs_comes_before_log_dir() -> None:
    settings = broker_settings({**LEAST, "log.dir": "/a", "log.dirs": "/b,/c"})

    assert settings.log_dirs == ("/b", "/c")
    assert settings.metadata_log_dir == "/b"
    assert broker_settings({**LEAST, "log.dir": "/a"}).log_dirs == ("/a",)


def test_a_topics_retention_falls_back_on_milliseconds_then_minutes_then_hours() -> None:
    hours = {"log.retention.hours": "1"}
    minutes = {**hours, "log.retention.minutes": "2"}
    milliseconds = {**minutes, "log.retention.ms": "3"}

    assert topic_value(rows.RETENTION_MS, {}, Layers({}, {}, hours)) == 3_600_000
    assert topic_value(rows.RETENTION_MS, {}, Layers({}, {}, minutes)) == 120_000
    assert topic_value(rows.RETENTION_MS, {}, Layers({}, {}, milliseconds)) == 3
    assert topic_value(rows.RETENTION_MS, {"retention.ms": "4"}, Layers({}, {}, milliseconds)) == 4


def test_retention_for_ever_stays_for_ever_when_hours_become_milliseconds() -> None:
    assert topic_value(rows.RETENTION_MS, {}, Layers({}, {}, {"log.retention.hours": "-1"})) == -1


def test_what_a_broker_is_told_while_running_comes_before_its_file() -> None:
    layers = Layers({"log.segment.bytes": "1048577"}, {"log.segment.bytes": "1048578"}, {})
    under = Layers({}, {"log.segment.bytes": "1048578"}, {"log.segment.bytes": "1048579"})

    assert topic_value(rows.SEGMENT_BYTES, {}, layers) == 1048577
    assert topic_value(rows.SEGMENT_BYTES, {}, under) == 1048578


def test_origins_are_in_the_order_in_which_they_count() -> None:
    layers = Layers({}, {"log.retention.ms": "2"}, {"log.retention.ms": "3", "log.retention.hours": "4"})

    origins = topic_origins(rows.RETENTION_MS, {"retention.ms": "1"}, layers)

    assert [(one.key, one.text, one.source) for one in origins] == [
        ("retention.ms", "1", Source.TOPIC),
        ("log.retention.ms", "2", Source.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.ms", "3", Source.STATIC_BROKER),
        ("log.retention.hours", "4", Source.STATIC_BROKER),
        ("log.retention.hours", "168", Source.DEFAULT),
    ]


def test_a_topic_override_of_a_capability_that_is_not_there_says_so() -> None:
    with pytest.raises(ConfigError, match="need tiered storage"):
        parse_topic_value("remote.storage.enable", "true")
    assert parse_topic_value("remote.storage.enable", "false") is False


def test_an_unknown_topic_override_is_an_error_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"did you mean retention\.ms\?"):
        parse_topic_value("retention.msec", "1")


def test_compaction_lags_must_fit_each_other() -> None:
    with pytest.raises(ConfigError, match=r"min\.compaction\.lag\.ms is 10, expected at most 5"):
        check_topic_overrides({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}, NOTHING)
    check_topic_overrides({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"}, NOTHING)


def test_only_settings_that_may_change_do_change_while_running() -> None:
    settings = broker_settings({**LEAST, "log.retention.ms": "1"})

    changed = settings.with_dynamic(
        {"log.retention.ms": "2", "num.partitions": "9"}, {"log.retention.ms": "3"}
    )

    assert changed.given["log.retention.ms"] == "3"
    assert changed[keys.NUM_PARTITIONS] == 1
    assert settings.with_dynamic({}) is settings


def test_a_value_from_another_version_does_not_stop_a_broker() -> None:
    settings = broker_settings(LEAST)

    assert settings.with_dynamic({"max.connections": "lots", "no.such": "1"}) is settings


def test_log_settings_of_brokers_may_change_while_running_and_identity_may_not() -> None:
    assert BROKER_SETTINGS["log.retention.hours"].update is Update.CLUSTER_WIDE
    assert BROKER_SETTINGS["message.max.bytes"].update is Update.CLUSTER_WIDE
    assert BROKER_SETTINGS["node.id"].update is Update.READ_ONLY
    assert BROKER_SETTINGS["listeners"].kind is Kind.LIST


def test_properties_are_read_as_java_reads_them() -> None:
    text = "# note\n! note\na=1\nb : 2\nc 3\n  d = 4\\\n    5\ne=\nf=x\\=y\\u0041\\n\n\ng = a b  "

    assert parse_properties(text) == {
        "a": "1", "b": "2", "c": "3", "d": "45", "e": "", "f": "x=yA\n", "g": "a b",
    }  # fmt: skip


def test_a_key_given_twice_is_an_error() -> None:
    with pytest.raises(ConfigError, match="a is given twice, expected it once"):
        parse_properties("a=1\na=2")


_OF_THREE = {
    "node.id": "2",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9091,2@127.0.0.1:9093,3@[::1]:9095",
    "cluster.id": "MkU3OEVBNTcwNTJENDM2Qg",
}


def test_a_node_of_a_cluster_knows_its_voters_and_its_listeners() -> None:
    settings = broker_settings(_OF_THREE)
    assert [(one.id, one.host, one.port) for one in settings.voters] == [
        (1, "127.0.0.1", 9091),
        (2, "127.0.0.1", 9093),
        (3, "::1", 9095),
    ]
    assert [one.name for one in settings.broker_listeners] == ["PLAINTEXT"]
    assert [one.name for one in settings.controller_listeners] == ["CONTROLLER"]
    assert settings.inter_broker_listener == "PLAINTEXT"


def test_a_controller_alone_listens_to_no_clients() -> None:
    given = {**_OF_THREE, "process.roles": "controller", "listeners": "CONTROLLER://127.0.0.1:9093"}
    settings = broker_settings(given)
    assert settings.broker_listeners == ()
    assert not settings.is_broker


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"cluster.id": None}, "cluster.id is not set"),
        ({"process.roles": "broker"}, "names this node, 2, whose process.roles is broker"),
        ({"controller.listener.names": None, "listeners": "PLAINTEXT://127.0.0.1:9092"}, "names none of the"),
    ],
)
def test_what_does_not_make_a_cluster_is_refused(change: dict[str, str | None], expected: str) -> None:
    given = {key: value for key, value in {**_OF_THREE, **change}.items() if value is not None}
    with pytest.raises(ConfigError, match=expected):
        broker_settings(given)
