"""What brokers and clients ask of a controller, over the wire (R5-R9)."""

from importlib import import_module
from pkgutil import iter_modules

import pytest

from everlog.broker.desk import dispatch, handlers
from everlog.controller.topics import CreateTopics, NewTopic
from everlog.metadata.features import SUPPORTED_FEATURES
from everlog.metadata.image import PartitionImage
from everlog.metadata.image_records import image_of, image_records
from everlog.model.errors import ErrorCode
from everlog.model.ids import BrokerId, Uuid
from everlog.wire.messages import alter_partition as alter
from everlog.wire.messages import alter_partition_reassignments as moving
from everlog.wire.messages import assign_replicas_to_dirs as dirs
from everlog.wire.messages import controller_registration as registering
from everlog.wire.messages import elect_leaders as electing
from everlog.wire.messages import list_partition_reassignments as listing
from everlog.wire.messages import update_features as features
from everlog.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from everlog.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from tests.unit.broker.desk.seats import SESSION_MS, SimulatedDesk


def a_desk(*brokers: int) -> SimulatedDesk:
    """A desk with brokers, and the topic orders on 1, 2 and 3 if they are there."""
    desk = SimulatedDesk()
    desk.join(*brokers)
    if {1, 2, 3} <= set(brokers):
        desk.do(CreateTopics((NewTopic("orders", assignments=((0, (1, 2, 3)),)),)))
    return desk


def orders(desk: SimulatedDesk) -> PartitionImage:
    return desk.image.topics["orders"].partitions[0]


def epoch_of(desk: SimulatedDesk, broker: int) -> int:
    return desk.image.brokers[BrokerId(broker)].epoch


def test_every_handler_can_be_reached() -> None:
    modules = {import_module(f"{handlers.__name__}.{one.name}") for one in iter_modules(handlers.__path__)}
    written = {module.handle for module in modules if hasattr(module, "handle")}

    assert written <= {dispatch.handler(key) for key in dispatch.ADVERTISED}


def test_a_broker_registers_beats_and_is_unfenced() -> None:
    desk = SimulatedDesk()

    registered = desk.register(4)
    assert (registered.error_code, registered.broker_epoch) == (0, epoch_of(desk, 4))
    assert desk.heartbeats.deadline() is None, "who is fenced is not waited for"

    behind = desk.beat(4, current_metadata_offset=registered.broker_epoch - 1)
    assert (behind.is_fenced, behind.is_caught_up) == (True, False)
    there = desk.beat(4)
    assert (there.error_code, there.is_fenced, there.is_caught_up, there.should_shut_down) == (0, 0, 1, 0)
    assert desk.heartbeats.deadline() == desk.now + SESSION_MS + 1


def test_a_broker_of_another_cluster_is_refused() -> None:
    desk = SimulatedDesk()

    answer = desk.register(4, cluster_id="another")

    assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert not desk.image.brokers


def test_a_number_is_free_once_its_process_is_silent_or_known_to_be_gone() -> None:
    desk = a_desk(1, 2)
    assert desk.register(1).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert desk.register(2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION

    desk.heartbeats.forget(BrokerId(1))
    assert desk.register(1).error_code == 0

    desk.clock.advance(SESSION_MS + 1)
    assert desk.register(2).error_code == 0


def test_a_beat_of_an_earlier_life_is_no_sign_of_life() -> None:
    desk = a_desk(1)
    old = epoch_of(desk, 1)
    desk.heartbeats.forget(BrokerId(1))
    desk.join(1)
    deadline = desk.heartbeats.deadline()
    desk.clock.advance(100)

    answer = desk.beat(1, broker_epoch=old)

    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert desk.heartbeats.deadline() == deadline
    assert desk.beat(1, broker_epoch=2**60).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert desk.heartbeats.deadline() == deadline


def test_a_broker_leaves_once_the_others_know_who_leads_in_its_place() -> None:
    desk = a_desk(1, 2, 3)
    seen = desk.image.end_offset - 1
    for broker in (2, 3):
        desk.beat(broker)

    leaving = desk.beat(1, want_shut_down=True)
    assert (leaving.is_fenced, leaving.should_shut_down) == (False, False)
    assert (orders(desk).leader, orders(desk).isr) == (2, (2, 3))
    assert not desk.beat(1, want_shut_down=True).should_shut_down
    desk.beat(2)
    desk.beat(3, current_metadata_offset=seen)
    assert not desk.beat(1, want_shut_down=True).should_shut_down, "3 does not know yet"

    desk.beat(3)

    gone = desk.beat(1, want_shut_down=True)
    assert (gone.is_fenced, gone.should_shut_down) == (True, True)
    assert desk.image.brokers[BrokerId(1)].fenced
    assert not desk.heartbeats.alive(BrokerId(1), desk.now)


@pytest.mark.parametrize("version", [2, 3])
def test_a_leader_changes_its_isr(version: int) -> None:
    desk = a_desk(1, 2, 3)
    topic = desk.image.topics["orders"].id

    def asked(*isr: int, leader_epoch: int = 0, topic_id: Uuid = topic) -> alter.ResponsePartitionData:
        answer = desk.ask(
            alter.AlterPartitionRequest(
                broker_id=1,
                broker_epoch=epoch_of(desk, 1),
                topics=[
                    alter.RequestTopicData(
                        topic_id=topic_id,
                        partitions=[
                            alter.RequestPartitionData(
                                partition_index=0,
                                leader_epoch=leader_epoch,
                                partition_epoch=orders(desk).partition_epoch,
                                new_isr=list(isr) if version < 3 else [],
                                new_isr_with_epochs=[
                                    alter.BrokerState(broker_id=one, broker_epoch=epoch_of(desk, one))
                                    for one in isr
                                ]
                                if version >= 3
                                else [],
                            )
                        ],
                    )
                ],
            ),
            version,
            alter.AlterPartitionResponse,
        )
        assert answer.error_code == 0
        return answer.topics[0].partitions[0]

    shrunk = asked(1, 2)
    assert (shrunk.error_code, shrunk.leader_id, shrunk.leader_epoch) == (0, 1, 0)
    assert (shrunk.isr, shrunk.partition_epoch) == ([1, 2], 1)
    assert asked(1, leader_epoch=1).error_code == ErrorCode.NOT_CONTROLLER
    assert asked(1, topic_id=Uuid(bytes(16))).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert orders(desk).isr == (1, 2)


def test_a_leader_of_another_life_may_change_nothing() -> None:
    desk = a_desk(1, 2, 3)

    answer = desk.ask(
        alter.AlterPartitionRequest(broker_id=1, broker_epoch=3), 3, alter.AlterPartitionResponse
    )

    assert (answer.error_code, answer.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])


def test_blocks_of_producer_ids_do_not_overlap() -> None:
    desk = a_desk(1, 2)

    def block(broker: int, epoch: int) -> AllocateProducerIdsResponse:
        request = AllocateProducerIdsRequest(broker_id=broker, broker_epoch=epoch)
        return desk.ask(request, 0, AllocateProducerIdsResponse)

    first, second = block(1, epoch_of(desk, 1)), block(2, epoch_of(desk, 2))

    assert second.producer_id_start == first.producer_id_start + first.producer_id_len
    assert block(1, 0).error_code == ErrorCode.STALE_BROKER_EPOCH


def moved(desk: SimulatedDesk, replicas: list[int] | None, number: int = 0) -> tuple[int, str | None]:
    answer = desk.ask(
        moving.AlterPartitionReassignmentsRequest(
            topics=[
                moving.ReassignableTopic(
                    name="orders",
                    partitions=[moving.ReassignablePartition(partition_index=number, replicas=replicas)],
                )
            ]
        ),
        1,
        moving.AlterPartitionReassignmentsResponse,
    )
    assert (answer.error_code, answer.error_message) == (0, None)
    (partition,) = answer.responses[0].partitions
    return partition.error_code, partition.error_message


def listed(desk: SimulatedDesk, topics: list[tuple[str, list[int]]] | None) -> list[tuple[object, ...]]:
    wanted = None
    if topics is not None:
        wanted = [
            listing.ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
            for name, numbers in topics
        ]
    answer = desk.ask(
        listing.ListPartitionReassignmentsRequest(topics=wanted),
        0,
        listing.ListPartitionReassignmentsResponse,
    )
    return [
        (topic.name, one.partition_index, one.replicas, one.adding_replicas, one.removing_replicas)
        for topic in answer.topics
        for one in topic.partitions
    ]


def test_a_partition_is_moved_listed_and_left_where_it_was() -> None:
    desk = a_desk(1, 2, 3, 4)

    assert moved(desk, [4, 2, 3]) == (0, None)
    under_way = [("orders", 0, [4, 2, 3, 1], [4], [1])]
    assert listed(desk, None) == under_way
    assert listed(desk, [("orders", [0])]) == under_way
    assert listed(desk, []) == []
    assert moved(desk, None) == (0, None)
    assert listed(desk, None) == []
    code, message = moved(desk, None)
    assert code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert message
    assert moved(desk, [1], number=9)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_too_many_moves_at_once_are_refused_whole() -> None:
    desk = a_desk(1)
    answer = desk.ask(
        moving.AlterPartitionReassignmentsRequest(
            topics=[
                moving.ReassignableTopic(
                    name="orders", partitions=[moving.ReassignablePartition() for _ in range(10_001)]
                )
            ]
        ),
        1,
        moving.AlterPartitionReassignmentsResponse,
    )

    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "10001 partitions" in (answer.error_message or "")


def elected(
    desk: SimulatedDesk, version: int, kind: int, partitions: list[int] | None
) -> electing.ElectLeadersResponse:
    topics = None
    if partitions is not None:
        topics = [electing.TopicPartitions(topic="orders", partitions=partitions)]
    return desk.ask(
        electing.ElectLeadersRequest(election_type=kind, topic_partitions=topics),
        version,
        electing.ElectLeadersResponse,
    )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_preferred_leader_is_elected(version: int) -> None:
    desk = a_desk(1, 2, 3)
    moved(desk, [3, 1, 2])
    assert orders(desk).leader == 1

    answer = elected(desk, version, 0, [0])

    assert answer.error_code == 0
    assert [one.error_code for one in answer.replica_election_results[0].partition_result] == [0]
    assert orders(desk).leader == 3
    again = elected(desk, version, 0, [0])
    assert again.replica_election_results[0].partition_result[0].error_code == ErrorCode.ELECTION_NOT_NEEDED
    assert elected(desk, version, 0, None).replica_election_results == []


def test_an_election_of_an_unknown_kind_is_refused() -> None:
    answer = elected(a_desk(1, 2, 3), 2, 5, [0])

    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_a_broker_that_has_stopped_is_forgotten_and_one_that_lives_is_not() -> None:
    desk = a_desk(1, 2)

    def forgotten(broker: int) -> UnregisterBrokerResponse:
        return desk.ask(UnregisterBrokerRequest(broker_id=broker), 0, UnregisterBrokerResponse)

    assert forgotten(2).error_code == ErrorCode.INVALID_REQUEST
    assert desk.beat(2, want_fence=True).is_fenced
    done = forgotten(2)
    assert (done.error_code, done.error_message) == (0, None)
    assert list(desk.image.brokers) == [1]
    assert forgotten(2).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_broker_says_where_its_replicas_lie() -> None:
    desk = a_desk(1, 2, 3)
    topic = desk.image.topics["orders"].id
    spare, known = Uuid(b"s" * 16), desk.image.brokers[BrokerId(2)].directories[0]

    def asked(directory: Uuid, *partitions: int, broker: int = 2) -> list[int]:
        answer = desk.ask(
            dirs.AssignReplicasToDirsRequest(
                broker_id=broker,
                broker_epoch=epoch_of(desk, broker),
                directories=[
                    dirs.RequestDirectoryData(
                        id=directory,
                        topics=[
                            dirs.RequestTopicData(
                                topic_id=topic,
                                partitions=[
                                    dirs.RequestPartitionData(partition_index=one) for one in partitions
                                ],
                            )
                        ],
                    )
                ],
            ),
            0,
            dirs.AssignReplicasToDirsResponse,
        )
        assert answer.error_code == 0
        return [one.error_code for one in answer.directories[0].topics[0].partitions]

    before = orders(desk).partition_epoch
    assert asked(known, 0, 5) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert orders(desk).partition_epoch == before, "that was known"
    assert asked(spare, 0) == [0]
    assert orders(desk).directories[1] == spare
    assert orders(desk).isr == (1, 3), "a directory that the broker does not have is lost, and all in it"
    desk.join(4)
    assert asked(spare, 0, broker=4) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_level_of_a_feature_is_changed(version: int) -> None:
    desk = a_desk(1)

    def asked(level: int, *, down: bool) -> features.UpdateFeaturesResponse:
        update = features.FeatureUpdateKey(feature="group.version", max_version_level=level)
        if version == 0:
            update.allow_downgrade = down
        else:
            update.upgrade_type = 2 if down else 1
        request = features.UpdateFeaturesRequest(feature_updates=[update])
        return desk.ask(request, version, features.UpdateFeaturesResponse)

    refused = asked(0, down=False)
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert [one.error_code for one in refused.results] == [refused.error_code] * (version < 2)
    done = asked(0, down=True)
    assert (done.error_code, done.error_message) == (0, None)
    assert "group.version" not in desk.image.features


def test_a_controller_says_where_it_listens_and_the_newest_counts() -> None:
    desk = SimulatedDesk()

    def asked(port: int, features: dict[str, tuple[int, int]]) -> int:
        request = registering.ControllerRegistrationRequest(
            controller_id=7,
            incarnation_id=Uuid(b"c" * 16),
            listeners=[registering.Listener(name="CONTROLLER", host="127.0.0.1", port=port)],
            features=[
                registering.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in features.items()
            ],
        )
        return desk.ask(request, 0, registering.ControllerRegistrationResponse).error_code

    assert asked(9093, SUPPORTED_FEATURES) == 0
    assert asked(9094, SUPPORTED_FEATURES) == 0
    end = desk.image.end_offset
    assert asked(9094, SUPPORTED_FEATURES) == 0
    assert desk.image.end_offset == end, "what is known is not written again"
    assert asked(9095, {}) == ErrorCode.UNSUPPORTED_VERSION
    known = desk.image.controllers[7]
    assert [(one.name, one.port) for one in known.endpoints] == [("CONTROLLER", 9094)]
    assert image_of(image_records(desk.image), desk.image.end_offset, 0).controllers == desk.image.controllers
