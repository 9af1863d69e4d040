"""What Admin asks of a cluster, of groups' coordinators and of controllers; the same on Apache Kafka."""

import time
from collections.abc import Callable, Generator

import pytest

import everlog
from everlog.admin import (
    ANY,
    DEFAULT,
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
    ConfigResource,
    Election,
    FeatureUpgrade,
    ItemsRefused,
    QuotaEntity,
    Replica,
    ScramDeletion,
    ScramMechanism,
    ScramUpsert,
    TopicPartition,
)
from everlog.broker.dispatch import SERVED
from everlog.wire.apis import APIS

FreshTopic = Callable[[], str]
Call = Callable[[everlog.Admin], object]


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Generator[everlog.Admin]:
    """A blocking Admin of the session's broker."""
    with everlog.Admin(bootstrap) as admin:
        yield admin


@pytest.fixture
def apache(admin: everlog.Admin, is_apache: bool) -> everlog.Admin:
    """The Admin, if it is Apache Kafka that it talks to: Everlog does not serve these calls yet."""
    if not is_apache:
        pytest.skip("Everlog does not serve it: --broker apache")
    return admin


def test_a_cluster_names_itself_and_its_brokers(admin: everlog.Admin, bootstrap: str) -> None:
    cluster = admin.describe_cluster(authorized_operations=True)

    assert cluster.cluster_id
    assert [broker.address for broker in cluster.brokers] == [bootstrap]
    assert cluster.controller_id in {broker.node_id for broker in cluster.brokers}


def test_features_are_told(admin: everlog.Admin) -> None:
    features = admin.describe_features()

    level = features.finalized["metadata.version"]
    assert features.supported["metadata.version"].lowest <= level
    assert level <= features.supported["metadata.version"].highest


OPEN = Acl(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)
NOT_SERVED: dict[str, Call] = {
    "DescribeAcls": lambda admin: admin.describe_acls(),
    "CreateAcls": lambda admin: admin.create_acls([OPEN]),
    "DeleteAcls": lambda admin: admin.delete_acls([AclFilter()]),
    "DescribeClientQuotas": lambda admin: admin.describe_client_quotas(),
    "AlterClientQuotas": lambda admin: admin.alter_client_quotas({QuotaEntity(user="u"): {}}),
    "DescribeUserScramCredentials": lambda admin: admin.describe_scram_users(),
    "AlterUserScramCredentials": lambda admin: admin.alter_scram_users([ScramUpsert("u", "p")]),
}


@pytest.mark.parametrize("api", NOT_SERVED)
def test_what_a_broker_does_not_serve_is_unsupported_by_name(
    admin: everlog.Admin, bootstrap: str, is_apache: bool, api: str
) -> None:
    if is_apache:
        pytest.skip("Apache Kafka serves it")
    served = {APIS[key].name for key in SERVED}
    assert api not in served, "Everlog serves it by now: the tests of the call itself are to run on it"

    with pytest.raises(everlog.Unsupported, match=f"API {api} of broker {bootstrap}") as unsupported:
        NOT_SERVED[api](admin)

    assert not unsupported.value.retriable


def test_the_quorum_has_a_leader_that_votes(admin: everlog.Admin) -> None:
    quorum = admin.describe_quorum()

    assert quorum.leader_id in {voter.node_id for voter in quorum.voters}
    assert quorum.high_watermark > 0
    assert all(voter.log_end_offset > 0 for voter in quorum.voters)


def test_a_feature_is_raised_and_lowered_only_when_that_is_meant(admin: everlog.Admin) -> None:
    level = admin.describe_features().finalized["transaction.version"]
    assert level >= 1

    admin.update_features({"transaction.version": level}, validate_only=True)
    with pytest.raises(everlog.Refused, match=r"transaction\.version"):
        admin.update_features({"transaction.version": level - 1}, validate_only=True)
    admin.update_features(
        {"transaction.version": level - 1}, upgrade=FeatureUpgrade.SAFE_DOWNGRADE, validate_only=True
    )

    assert admin.describe_features().finalized["transaction.version"] == level


def test_an_unknown_broker_cannot_be_forgotten(admin: everlog.Admin) -> None:
    with pytest.raises(everlog.Refused, match="broker 77: BROKER_ID_NOT_REGISTERED"):
        admin.unregister_broker(77)


def test_quotas_are_set_found_and_taken_away(apache: everlog.Admin) -> None:
    alice = QuotaEntity(user="alice")
    both = QuotaEntity(user=DEFAULT, client_id="loader")

    apache.alter_client_quotas({alice: {"producer_byte_rate": 1024.0}, both: {"consumer_byte_rate": 25.0}})

    # Kafka answers a change once the controller has it; brokers hear of it soon.
    _eventually(lambda: apache.describe_client_quotas(alice) == {alice: {"producer_byte_rate": 1024.0}})
    assert apache.describe_client_quotas(QuotaEntity(user=DEFAULT, client_id=ANY)) == {
        both: {"consumer_byte_rate": 25.0}
    }
    assert alice in apache.describe_client_quotas()
    assert both not in apache.describe_client_quotas(QuotaEntity(user=ANY), strict=True)
    with pytest.raises(ItemsRefused, match="quotas of user 'alice'"):
        apache.alter_client_quotas({alice: {"no_such_quota": 1}})
    apache.alter_client_quotas({alice: {"producer_byte_rate": None}, both: {"consumer_byte_rate": None}})
    _eventually(lambda: apache.describe_client_quotas() == {})


def test_scram_users_are_made_listed_and_deleted(apache: everlog.Admin) -> None:
    apache.alter_scram_users(
        [
            ScramUpsert("alice", "sesame"),
            ScramUpsert("alice", "sesame", ScramMechanism.SCRAM_SHA_256, iterations=8192),
            ScramUpsert("bob", "hunter2"),
        ]
    )

    found = apache.describe_scram_users()
    assert {entry.mechanism: entry.iterations for entry in found["alice"]} == {
        ScramMechanism.SCRAM_SHA_512: 4096,
        ScramMechanism.SCRAM_SHA_256: 8192,
    }
    with pytest.raises(ItemsRefused, match="user 'eve': RESOURCE_NOT_FOUND") as missing:
        apache.describe_scram_users(["bob", "eve"])
    assert set(missing.value.done) == {"bob"}
    with pytest.raises(ItemsRefused, match="user 'bob': UNACCEPTABLE_CREDENTIAL"):
        apache.alter_scram_users([ScramUpsert("bob", "x", iterations=1)])
    apache.alter_scram_users(
        [
            ScramDeletion("alice", ScramMechanism.SCRAM_SHA_256),
            ScramDeletion("alice", ScramMechanism.SCRAM_SHA_512),
            ScramDeletion("bob", ScramMechanism.SCRAM_SHA_512),
        ]
    )
    assert apache.describe_scram_users() == {}


def test_a_password_is_not_shown() -> None:
    assert "sesame" not in repr(ScramUpsert("alice", "sesame"))


def test_partitions_are_reassigned_or_the_reason_is_told(
    admin: everlog.Admin, fresh_topic: FreshTopic
) -> None:
    name = fresh_topic()
    admin.create_topic(name, 2)
    here, there = TopicPartition(name, 0), TopicPartition(name, 1)
    node = admin.describe_cluster().brokers[0].node_id

    admin.alter_partition_reassignments({here: [node]})
    with pytest.raises(ItemsRefused) as refused:
        admin.alter_partition_reassignments({here: [node], there: [77]})

    assert refused.value.errors[there].code is everlog.ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert list(refused.value.done) == [here]
    assert admin.list_partition_reassignments() == {}
    assert admin.list_partition_reassignments([here]) == {}
    with pytest.raises(ItemsRefused, match="NO_REASSIGNMENT_IN_PROGRESS"):
        admin.alter_partition_reassignments({here: None})


def test_leaders_are_elected_where_that_is_needed(admin: everlog.Admin, fresh_topic: FreshTopic) -> None:
    name = fresh_topic()
    admin.create_topic(name, 2)
    place = TopicPartition(name, 0)

    assert admin.elect_leaders([place]) == {place: False}
    assert place not in admin.elect_leaders()
    with pytest.raises(ItemsRefused, match="UNKNOWN_TOPIC_OR_PARTITION"):
        admin.elect_leaders([TopicPartition(name, 9)], election=Election.UNCLEAN)


def test_replicas_move_only_to_directories_that_are_there(
    admin: everlog.Admin, fresh_topic: FreshTopic
) -> None:
    name = fresh_topic()
    admin.create_topic(name)
    (log_dir,) = admin.describe_log_dirs()
    mine = Replica(TopicPartition(name, 0), log_dir.broker)

    admin.alter_replica_log_dirs({mine: log_dir.path})
    with pytest.raises(ItemsRefused, match="LOG_DIR_NOT_FOUND"):
        admin.alter_replica_log_dirs({mine: "/no/such/directory"})


def test_loggers_and_groups_have_settings_too(apache: everlog.Admin, fresh_topic: FreshTopic) -> None:
    node = apache.describe_cluster().brokers[0].node_id
    logger = ConfigResource.broker_logger(node)
    group = ConfigResource.group(fresh_topic())
    metrics = ConfigResource.client_metrics(fresh_topic())

    levels = apache.describe_configs([logger])[logger]
    name = next(iter(levels))
    apache.alter_configs({logger: {name: "WARN"}})
    apache.alter_configs({group: {"consumer.session.timeout.ms": "4000"}, metrics: {"interval.ms": "1000"}})

    assert apache.describe_configs([logger])[logger][name].value == "WARN"
    _eventually(
        lambda: apache.describe_configs([group])[group]["consumer.session.timeout.ms"].value == "4000"
    )
    assert {group, metrics} <= set(apache.list_config_resources())


def _eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
