"""What an Admin asks for on the wire, and how the answers about each thing are read."""

from base64 import b64decode

import pytest

from everlog.client.core.admin.acls import (
    Acl,
    AclFilter,
    AclPermission,
    AclResourceType,
    read_acls_created,
    read_acls_deleted,
)
from everlog.client.core.admin.authorized import NOT_ASKED, AclOperation, authorized_operations
from everlog.client.core.admin.choices import FeatureUpgrade
from everlog.client.core.admin.cluster import read_features_updated, read_quorum, update_features_request
from everlog.client.core.admin.configs import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    changes_of,
    read_configs,
)
from everlog.client.core.admin.log_dirs import read_log_dirs
from everlog.client.core.admin.outcomes import ItemsRefused, all_done
from everlog.client.core.admin.placement import read_elections
from everlog.client.core.admin.quotas import (
    ANY,
    DEFAULT,
    QuotaEntity,
    alter_quotas_request,
    describe_quotas_request,
)
from everlog.client.core.admin.scram_users import (
    ScramDeletion,
    ScramMechanism,
    ScramUpsert,
    alter_scram_request,
    once_a_user,
    salted_password,
)
from everlog.client.core.admin.topics import (
    NewTopic,
    TopicDescription,
    create_topics_request,
    delete_topics_request,
    read_deleted,
    usable,
)
from everlog.client.core.metadata import Partition
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import NO_UUID, Uuid
from everlog.model.topics import TopicPartition
from everlog.wire.messages.create_acls import AclCreationResult, CreateAclsResponse
from everlog.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from everlog.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from everlog.wire.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from everlog.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from everlog.wire.messages.describe_quorum import DescribeQuorumResponse
from everlog.wire.messages.elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from everlog.wire.messages.update_features import UpdateFeaturesResponse

NO = Refused(ErrorCode.INVALID_REQUEST, "no")
NEVER = Refused(ErrorCode.INVALID_CONFIG, "never")


def test_one_refusal_speaks_for_itself_and_several_are_all_named() -> None:
    with pytest.raises(ItemsRefused, match=r"^no$") as one:
        all_done({"a": NO, "b": 1})
    with pytest.raises(ItemsRefused, match=r"^2 of 3 were refused: never; no$") as two:
        all_done({"a": NEVER, "b": 1, "c": NO})

    assert (one.value.code, one.value.done) == (ErrorCode.INVALID_REQUEST, {"b": 1})
    assert (two.value.code, list(two.value.errors)) == (ErrorCode.INVALID_CONFIG, ["a", "c"])
    assert all_done({"a": None, "b": 1}) == {"a": None, "b": 1}


def test_replicas_placed_by_hand_stand_for_the_counts() -> None:
    (topic,) = create_topics_request(
        [NewTopic("t", 9, 9, assignments={0: [1, 2], 1: [2, 1]})], 1000, validate_only=True
    ).topics

    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)
    assert [(each.partition_index, each.broker_ids) for each in topic.assignments] == [
        (0, [1, 2]),
        (1, [2, 1]),
    ]


def test_a_topic_that_was_deleted_by_id_is_answered_by_id() -> None:
    one, two = Uuid(bytes(15) + b"\x01"), Uuid(bytes(15) + b"\x02")
    request = delete_topics_request(["a", one], 1000, 6)
    assert [(state.name, state.topic_id) for state in request.topics] == [("a", NO_UUID), (None, one)]
    assert delete_topics_request(["a"], 1000, 5).topic_names == ["a"]
    answer = DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(name="a", topic_id=two),
            DeletableTopicResult(name="b", topic_id=one, error_code=ErrorCode.INVALID_REQUEST),
        ]
    )

    read = read_deleted(answer, ["a", one])

    assert read["a"] is None
    assert isinstance(read[one], Refused)


def test_a_topic_is_usable_when_brokers_that_are_alive_lead_all_of_it() -> None:
    def a_topic(*leaders: int) -> TopicDescription:
        parts = {index: Partition(index, leader, 0, (1,), (1,)) for index, leader in enumerate(leaders)}
        return TopicDescription("t", NO_UUID, False, parts)

    assert usable({"t": a_topic(1, 2)}, ["t"], {1, 2})["t"].name == "t"
    for found in (a_topic(1, -1), a_topic(1, 3)):
        with pytest.raises(Refused, match=r"partitions \[1\] have no leader"):
            usable({"t": found}, ["t"], {1, 2})
    unknown = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no")
    with pytest.raises(Refused, match="no such topic yet"):
        usable({"t": unknown}, ["t"], {1})
    with pytest.raises(Refused, match="never"):
        usable({"t": NEVER}, ["t"], {1})


def test_new_values_by_name_are_sets_and_deletions() -> None:
    assert list(changes_of({"a": "1", "b": None})) == [
        ConfigChange("a", ConfigOperation.SET, "1"),
        ConfigChange("b", ConfigOperation.DELETE),
    ]


def test_only_brokers_and_their_loggers_live_at_one_broker() -> None:
    nodes = [
        ConfigResource.broker(3).node_id,
        ConfigResource.broker_logger(3).node_id,
        ConfigResource.all_brokers().node_id,
        ConfigResource.topic("3").node_id,
    ]

    assert nodes == [3, 3, None, None]
    assert str(ConfigResource.all_brokers()) == "all brokers"
    assert str(ConfigResource.client_metrics("m")) == "client metrics 'm'"


def test_kinds_and_sources_that_are_newer_than_we_are_unknown() -> None:
    entry = DescribeConfigsResourceResult(name="x", config_source=99)
    result = DescribeConfigsResult(resource_type=77, resource_name="r", configs=[entry])

    read = read_configs(DescribeConfigsResponse(results=[result]))

    ((resource, entries),) = read.items()
    assert resource == ConfigResource(ConfigResourceType.UNKNOWN, "r")
    assert not isinstance(entries, Refused)
    assert entries["x"].source is ConfigSource.UNKNOWN


def test_operations_are_bits_by_their_numbers() -> None:
    assert authorized_operations(NOT_ASKED) is None
    assert authorized_operations(1 << 3 | 1 << 8) == frozenset({AclOperation.READ, AclOperation.DESCRIBE})


def test_answers_about_rules_go_by_their_order() -> None:
    one = Acl(AclResourceType.TOPIC, "orders", "User:a", AclOperation.READ)
    two = Acl(AclResourceType.GROUP, "g", "User:b", AclOperation.READ, AclPermission.DENY)
    created = CreateAclsResponse(
        results=[
            AclCreationResult(),
            AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message="x"),
        ]
    )

    read = read_acls_created(created, [one, two])

    assert read[one] is None
    assert str(read[two]) == "rule to deny User:b from * READ of group 'g': INVALID_REQUEST: x"
    match = DeleteAclsMatchingAcl(
        resource_type=2, resource_name="orders", principal="User:a", host="*", operation=3, permission_type=3
    )
    failed = DeleteAclsMatchingAcl(
        error_code=ErrorCode.INVALID_REQUEST, resource_type=2, operation=3, permission_type=3
    )
    filters = [AclFilter(name="orders"), AclFilter(name="other")]
    deleted = read_acls_deleted(
        DeleteAclsResponse(
            filter_results=[
                DeleteAclsFilterResult(matching_acls=[match]),
                DeleteAclsFilterResult(matching_acls=[match, failed]),
            ]
        ),
        filters,
    )
    assert deleted[filters[0]] == [one]
    assert isinstance(deleted[filters[1]], Refused)


def test_a_password_is_salted_as_rfc_7677_has_it() -> None:
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")

    salted = salted_password("pencil", ScramMechanism.SCRAM_SHA_256, salt, 4096)

    assert salted.hex() == "c4a49510323ab4f952cac1fa99441939e78ea74d6be81ddf7096e87513dc615d"
    upsert = ScramUpsert("user", "pencil", ScramMechanism.SCRAM_SHA_256, salt=salt)
    (sent,) = alter_scram_request([upsert], {}).upsertions
    assert (sent.name, sent.salt, sent.salted_password) == ("user", salt, salted)


def test_no_request_changes_a_user_twice() -> None:
    changes: list[ScramUpsert | ScramDeletion] = [
        ScramUpsert("a", "1"),
        ScramDeletion("a", ScramMechanism.SCRAM_SHA_256),
        ScramUpsert("b", "2"),
        ScramDeletion("a", ScramMechanism.SCRAM_SHA_512),
    ]

    lots = once_a_user(changes)

    assert [sorted(lot) for lot in lots] == [["a", "b"], ["a"], ["a"]]
    assert [lot["a"] for lot in lots] == [changes[0], changes[1], changes[3]]


def test_default_and_any_are_told_apart_from_names() -> None:
    asked = describe_quotas_request(QuotaEntity(user=DEFAULT, client_id=ANY, ip="10.0.0.1"), strict=True)
    (entry,) = alter_quotas_request(
        {QuotaEntity(user=DEFAULT, client_id="c"): {"a": 1, "b": None}}, validate_only=False
    ).entries

    assert [(part.entity_type, part.match_type, part.match) for part in asked.components] == [
        ("user", 1, None),
        ("client-id", 2, None),
        ("ip", 0, "10.0.0.1"),
    ]
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == [
        ("user", None),
        ("client-id", "c"),
    ]
    assert [(op.key, op.value, op.remove) for op in entry.ops] == [("a", 1.0, False), ("b", 0.0, True)]


def test_an_election_that_is_not_needed_is_no_error() -> None:
    results = [
        PartitionResult(partition_id=0),
        PartitionResult(partition_id=1, error_code=ErrorCode.ELECTION_NOT_NEEDED),
        PartitionResult(partition_id=2, error_code=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
    ]

    read = read_elections(
        ElectLeadersResponse(
            replica_election_results=[ReplicaElectionResult(topic="t", partition_result=results)]
        )
    )

    assert (read[TopicPartition("t", 0)], read[TopicPartition("t", 1)]) == (True, False)
    assert isinstance(read[TopicPartition("t", 2)], Refused)


def test_features_are_answered_for_together_and_an_empty_quorum_is_an_error() -> None:
    assert read_features_updated(UpdateFeaturesResponse(), {"a": 1, "b": 2}) == {"a": None, "b": None}
    with pytest.raises(Refused, match="features a=1, b=2: INVALID_UPDATE_VERSION"):
        read_features_updated(
            UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION), {"a": 1, "b": 2}
        )
    request = update_features_request({"a": 1}, FeatureUpgrade.UNSAFE_DOWNGRADE, 5, validate_only=True)
    assert request.feature_updates[0].upgrade_type == 3
    with pytest.raises(Refused, match="leaves it out"):
        read_quorum(DescribeQuorumResponse())


def test_a_log_dir_tells_what_moves_in_and_why_it_cannot_be_used() -> None:
    partition = DescribeLogDirsPartition(partition_index=0, partition_size=9, is_future_key=True)
    held = DescribeLogDirsTopic(name="t", partitions=[partition])
    answer = DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(log_dir="/a", topics=[held]),
            DescribeLogDirsResult(log_dir="/b", error_code=ErrorCode.KAFKA_STORAGE_ERROR),
        ]
    )

    good, bad = read_log_dirs(answer, 3)

    assert good.partition_bytes == {TopicPartition("t", 0): 9}
    assert good.moving_in == frozenset({TopicPartition("t", 0)})
    assert (good.error, str(bad.error)) == (
        None,
        "log directory /b of broker 3: KAFKA_STORAGE_ERROR",
    )
