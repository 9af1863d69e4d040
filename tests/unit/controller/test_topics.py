"""Topics and partitions: what is created, and each reason for which it is not (L1)."""

from dataclasses import replace

import pytest

from everlog.controller.decisions import Refusal, Standing
from everlog.controller.partitions import CreatePartitions, MorePartitions
from everlog.controller.placement import place, rack_alternated
from everlog.controller.topics import CreateTopics, DeleteTopics, NewTopic, TopicCreated, colliding
from everlog.metadata.delta import apply
from everlog.metadata.image import EMPTY_IMAGE, TopicImage
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import BrokerId, Uuid
from everlog.model.settings import BrokerSettings
from everlog.sim.chance import SimRandom
from everlog.wire.messages.config_record import ConfigRecord
from everlog.wire.messages.partition_record import PartitionRecord
from everlog.wire.messages.topic_record import TopicRecord
from tests.unit.controller.builders import DIRECTORY, a_broker_image, some_settings

DEFAULTS = some_settings()


def a_standing(
    *topics: str,
    brokers: int = 1,
    settings: BrokerSettings = DEFAULTS,
    fenced: tuple[int, ...] = (),
    partitions: int = 1,
) -> Standing:
    """A cluster with these brokers and topics."""
    image = replace(
        EMPTY_IMAGE,
        brokers={
            BrokerId(number): a_broker_image(number, fenced=number in fenced)
            for number in range(1, brokers + 1)
        },
    )
    standing = Standing(image, settings, SimRandom(5))
    if topics:
        command = CreateTopics(tuple(NewTopic(name, partitions) for name in topics))
        standing = Standing(apply(image, command.decide(standing).records, 0), settings, SimRandom(6))
    return standing


def created(standing: Standing, topic: NewTopic) -> TopicCreated | Refusal:
    return CreateTopics((topic,)).decide(standing).reply[topic.name]


def refusal(standing: Standing, topic: NewTopic) -> tuple[ErrorCode, str]:
    outcome = created(standing, topic)
    assert isinstance(outcome, Refusal)
    return outcome.code, outcome.message


def test_a_new_topic_is_a_topic_record_then_its_configs_then_its_partitions() -> None:
    topic = NewTopic("orders", 2, 1, configs=(("retention.ms", "5"), ("cleanup.policy", "compact")))

    decision = CreateTopics((topic,)).decide(a_standing())

    assert [type(record) for record in decision.records] == [
        TopicRecord, ConfigRecord, ConfigRecord, PartitionRecord, PartitionRecord,
    ]  # fmt: skip
    partition = decision.records[-1]
    assert isinstance(partition, PartitionRecord)
    assert (partition.partition_id, partition.replicas, partition.isr, partition.leader) == (1, [1], [1], 1)
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    assert partition.directories == [DIRECTORY]


def test_partitions_and_replicas_are_the_defaults_unless_given() -> None:
    standing = a_standing(
        brokers=3, settings=some_settings(num_partitions="4", default_replication_factor="2")
    )

    outcome = created(standing, NewTopic("orders"))

    assert isinstance(outcome, TopicCreated)
    assert (outcome.partitions, outcome.replication_factor) == (4, 2)


def test_validate_only_answers_the_same_and_writes_nothing() -> None:
    decision = CreateTopics((NewTopic("orders", 2), NewTopic("a b")), validate_only=True).decide(a_standing())

    assert decision.records == ()
    assert isinstance(decision.reply["orders"], TopicCreated)
    assert isinstance(decision.reply["a b"], Refusal)


def test_one_bad_topic_does_not_fail_its_neighbours() -> None:
    topics = (NewTopic("good"), NewTopic("bad", 0), NewTopic("fine"))

    reply = CreateTopics(topics).decide(a_standing()).reply

    assert [type(outcome) for outcome in reply.values()] == [TopicCreated, Refusal, TopicCreated]


def test_no_topics_at_all_is_fine() -> None:
    for command in (CreateTopics(()), DeleteTopics(()), CreatePartitions(())):
        decision = command.decide(a_standing())
        assert not decision.records
        assert not decision.reply


@pytest.mark.parametrize(
    ("topic", "code", "says"),
    [
        (NewTopic(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "empty"),
        (NewTopic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION, "'..'"),
        (NewTopic("a/../b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "'a/../b'"),
        (NewTopic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION, "250 characters"),
        (NewTopic("here"), ErrorCode.TOPIC_ALREADY_EXISTS, "'here' exists already"),
        (NewTopic("a_b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with a.b"),
        (NewTopic("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "cluster's own"),
        (NewTopic("t", 0), ErrorCode.INVALID_PARTITIONS, "are 0, expected at least 1"),
        (NewTopic("t", -2), ErrorCode.INVALID_PARTITIONS, "are -2"),
        (NewTopic("t", 2_147_483_647), ErrorCode.POLICY_VIOLATION, "10000"),
        (NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "is 0"),
        (NewTopic("t", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR, "is 2, expected at most 1"),
        (NewTopic("t", 2_147_483_647, 9), ErrorCode.INVALID_REPLICATION_FACTOR, "is 9"),
        (NewTopic("t", 1, assignments=((0, (1,)),)), ErrorCode.INVALID_REQUEST, "must be -1"),
        (NewTopic("t", assignments=((1, (1,)),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "expected 0, 1, 2"),
        (
            NewTopic("t", assignments=((0, (1,)), (0, (1,)))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "each once",
        ),
        (NewTopic("t", assignments=((0, ()),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "on 0 brokers"),
        (NewTopic("t", assignments=((0, (1, 1)),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "twice"),
        (NewTopic("t", assignments=((0, (5,)),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 5"),
        (NewTopic("t", configs=(("retention.ms", None),)), ErrorCode.INVALID_CONFIG, "no value"),
        (NewTopic("t", configs=(("retention.ms", "x"),)), ErrorCode.INVALID_CONFIG, "is 'x'"),
        (
            NewTopic("t", configs=(("retenshun.ms", "1"),)),
            ErrorCode.INVALID_CONFIG,
            "did you mean retention.ms",
        ),
        (
            NewTopic("t", configs=(("retention.ms", "1"), ("retention.ms", "2"))),
            ErrorCode.INVALID_CONFIG,
            "given twice",
        ),
        (
            NewTopic("t", configs=(("remote.storage.enable", "true"),)),
            ErrorCode.INVALID_CONFIG,
            "tiered storage",
        ),
    ],
)
def test_each_reason_not_to_create_a_topic_has_its_code(topic: NewTopic, code: ErrorCode, says: str) -> None:
    found, message = refusal(a_standing("here", "a.b"), topic)

    assert found is code
    assert says in message


def test_a_name_given_twice_is_refused_once_and_not_created() -> None:
    decision = CreateTopics((NewTopic("a"), NewTopic("a"), NewTopic("b"))).decide(a_standing())

    assert list(decision.reply) == ["a", "b"]
    assert isinstance(decision.reply["a"], Refusal)
    assert decision.reply["a"].code is ErrorCode.INVALID_REQUEST


def test_two_new_topics_that_collide_are_not_both_created() -> None:
    reply = (
        CreateTopics((NewTopic("a.b", 0), NewTopic("a_b"), NewTopic("a.b.c"), NewTopic("a.b_c")))
        .decide(a_standing())
        .reply
    )

    assert isinstance(reply["a_b"], TopicCreated), "the other one was refused, so nothing collides"
    assert isinstance(reply["a.b.c"], TopicCreated)
    assert isinstance(reply["a.b_c"], Refusal)


@pytest.mark.parametrize("name", ["a_b.c", "a.b.c.d.e.f.g.h_i", "nothing"])
def test_collisions_are_found_whichever_way_they_are_looked_for(name: str) -> None:
    standing = a_standing(name)

    assert colliding(name, standing.image) is None, "a topic does not collide with itself"
    other = name.replace("_", ".")
    assert colliding(other, standing.image) == (name if other != name else None)


def test_limits_count_all_topics_of_a_command() -> None:
    standing = a_standing(settings=some_settings(max_partitions="10"))

    reply = CreateTopics((NewTopic("a", 6), NewTopic("b", 6), NewTopic("c", 4))).decide(standing).reply

    assert [isinstance(outcome, TopicCreated) for outcome in reply.values()] == [True, False, True]


def test_replicas_placed_by_hand_stay_where_they_were_put() -> None:
    standing = a_standing(brokers=3, fenced=(2,))

    decision = CreateTopics((NewTopic("t", assignments=((1, (3, 1)), (0, (2, 3)))),)).decide(standing)

    partitions = [record for record in decision.records if isinstance(record, PartitionRecord)]
    assert [(one.replicas, one.isr, one.leader) for one in partitions] == [
        ([2, 3], [3], 3),
        ([3, 1], [3, 1], 3),
    ]


def test_replicas_that_none_can_lead_are_refused() -> None:
    code, message = refusal(a_standing(brokers=2, fenced=(2,)), NewTopic("t", assignments=((0, (2,)),)))

    assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "can lead" in message


def test_without_an_active_broker_nothing_is_created() -> None:
    code, _ = refusal(a_standing(brokers=1, fenced=(1,)), NewTopic("t"))

    assert code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_leads_are_spread_over_brokers_and_followers_change() -> None:
    placed = place([a_broker_image(number) for number in range(1, 5)], 12, 2, SimRandom(3))

    leads = [replicas[0] for replicas in placed]
    assert sorted(leads) == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    assert all(len(set(replicas)) == 2 for replicas in placed)
    followers_of_1 = {replicas[1] for replicas in placed if replicas[0] == 1}
    assert len(followers_of_1) == 3, "not the same follower every time"


def test_replicas_stand_in_different_racks_where_they_can() -> None:
    brokers = [a_broker_image(number, "ab"[number % 2]) for number in range(1, 7)]
    rack_of = {broker.id: broker.rack for broker in brokers}

    for replicas in place(brokers, 30, 2, SimRandom(3)):
        assert len({rack_of[BrokerId(one)] for one in replicas}) == 2
    for replicas in place(brokers, 30, 3, SimRandom(3)):
        assert len(set(replicas)) == 3
    assert [broker.rack for broker in rack_alternated(brokers)] == ["b", "a"] * 3


def test_too_few_brokers_for_the_replicas_is_refused() -> None:
    code, message = refusal(a_standing(brokers=2), NewTopic("t", 1, 3))

    assert code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert "is 3, expected at most 2" in message


def deleted(standing: Standing, *topics: str | Uuid) -> list[TopicImage | Refusal]:
    return DeleteTopics(topics).decide(standing).reply


def code_of(outcome: object) -> ErrorCode | None:
    return outcome.code if isinstance(outcome, Refusal) else None


def test_topics_are_deleted_by_name_and_by_id() -> None:
    standing = a_standing("a", "b", "c")
    by_id = standing.image.topics["b"].id

    outcomes = deleted(standing, "a", by_id)

    assert [one.name for one in outcomes if isinstance(one, TopicImage)] == ["a", "b"]


def test_an_unknown_name_and_an_unknown_id_have_different_codes() -> None:
    outcomes = deleted(a_standing("a"), "x", Uuid(bytes(15) + b"\x09"), "a")

    assert [code_of(one) for one in outcomes] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, None,
    ]  # fmt: skip


def test_a_topic_named_twice_by_name_and_id_stays() -> None:
    standing = a_standing("a", "b")

    decision = DeleteTopics(("a", standing.image.topics["a"].id, "b")).decide(standing)

    assert [code_of(one) for one in decision.reply] == [
        ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, None,
    ]  # fmt: skip
    assert len(decision.records) == 1


def test_nothing_is_deleted_where_deletion_is_disabled() -> None:
    standing = a_standing("a", settings=some_settings(delete_topic_enable="false"))

    assert [code_of(one) for one in deleted(standing, "a", "x")] == [ErrorCode.TOPIC_DELETION_DISABLED] * 2


def test_partitions_are_added_behind_those_that_are_there() -> None:
    decision = CreatePartitions((MorePartitions("a", 5),)).decide(a_standing("a", partitions=3))

    numbers = [record.partition_id for record in decision.records if isinstance(record, PartitionRecord)]
    assert numbers == [3, 4]
    assert decision.reply == {"a": None}


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (MorePartitions("x", 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (MorePartitions("a", 3), ErrorCode.INVALID_PARTITIONS),
        (MorePartitions("a", 2), ErrorCode.INVALID_PARTITIONS),
        (MorePartitions("a", -1), ErrorCode.INVALID_PARTITIONS),
        (MorePartitions("a", 2_147_483_647), ErrorCode.POLICY_VIOLATION),
        (MorePartitions("a", 5, ((1,),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MorePartitions("a", 4, ((9,),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MorePartitions("a", 4, ((1, 1),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MorePartitions("a", 4, ()), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_each_reason_not_to_add_partitions_has_its_code(topic: MorePartitions, code: ErrorCode) -> None:
    decision = CreatePartitions((topic, MorePartitions("b", 4))).decide(a_standing("a", "b", partitions=3))

    assert code_of(decision.reply[topic.name]) is code
    assert decision.reply["b"] is None, "its neighbour is not touched"


def test_partitions_added_by_hand_and_with_validate_only() -> None:
    command = CreatePartitions((MorePartitions("a", 2, ((1,),)),), validate_only=True)

    decision = command.decide(a_standing("a"))

    assert decision.reply == {"a": None}
    assert decision.records == ()


def test_a_topic_named_twice_gets_no_partitions() -> None:
    decision = CreatePartitions((MorePartitions("a", 2), MorePartitions("a", 3))).decide(a_standing("a"))

    assert code_of(decision.reply["a"]) is ErrorCode.INVALID_REQUEST
    assert not decision.records


@pytest.mark.parametrize(
    "command",
    [
        CreateTopics(tuple(NewTopic(f"t{number}") for number in range(10_001)), validate_only=True),
        CreatePartitions(tuple(MorePartitions(f"t{number}", 2) for number in range(10_001))),
        DeleteTopics(tuple(f"t{number}" for number in range(10_001))),
    ],
    ids=lambda command: type(command).__name__,
)
def test_a_command_that_names_too_many_topics_is_refused_as_a_whole(
    command: CreateTopics | CreatePartitions | DeleteTopics,
) -> None:
    with pytest.raises(Refused, match="names 10001 topics, expected 10000 at most") as refused:
        command.decide(a_standing())
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize("names", [("a.b",), ("a.b", "c")], ids=["alone", "among others"])
def test_a_new_topic_collides_with_an_old_one_alone_and_among_others(names: tuple[str, ...]) -> None:
    decision = CreateTopics(tuple(map(NewTopic, names))).decide(a_standing("a_b"))

    outcome = decision.reply["a.b"]
    assert isinstance(outcome, Refusal)
    assert (outcome.code, "collides with a_b" in outcome.message) == (ErrorCode.INVALID_TOPIC_EXCEPTION, True)
    assert code_of(decision.reply.get("c")) is None


def test_names_with_many_dots_are_compared_with_all_topics_in_one_go() -> None:
    """Each has 64 variants; to look for every one of them took longer than all else."""
    many = CreateTopics(tuple(NewTopic(f"a.b.c.d.e.f{number}.g") for number in range(2_000)), True)
    standing = a_standing("a_b_c_d_e_f7_g")

    outcomes = many.decide(standing).reply

    assert [name for name, one in outcomes.items() if isinstance(one, Refusal)] == ["a.b.c.d.e.f7.g"]
