"""Leaders of partitions whose eligible replicas all stopped uncleanly (KIP-966)."""

from everlog.controller.elections import LogEnd
from everlog.controller.leader_election import ElectionType, ElectLeaders
from everlog.controller.leader_recovery import (
    LATECOMERS_MS,
    PARTITIONS_PER_QUESTION,
    LeaderRecovery,
    RecoverLeaders,
    Said,
)
from everlog.controller.partition_changes import PartitionRef
from everlog.metadata.image import NO_LEADER
from everlog.model.ids import BrokerId, Instant
from tests.unit.controller.clusters import Cluster, check_invariants, shape

NOW = Instant(5_000)


def struck(replicas: tuple[int, ...] = (1, 2, 3), partitions: int = 1, least: str = "2") -> Cluster:
    """A cluster all of whose brokers were killed, and are back in the order of their numbers."""
    cluster = Cluster(3)
    cluster.create("orders", *[replicas] * partitions, min_insync_replicas=least)
    for number in (1, 2, 3):
        cluster.join(number)
    return cluster


def ref(cluster: Cluster, number: int = 0) -> PartitionRef:
    return PartitionRef(cluster.image.topics["orders"].id, number)


def answer(recovery: LeaderRecovery, cluster: Cluster, broker: int, epoch: int, end: int) -> None:
    leader_epoch = cluster.partition().leader_epoch
    recovery.answered(BrokerId(broker), cluster.epoch(broker), ref(cluster), leader_epoch, LogEnd(epoch, end))


def test_all_that_are_back_are_asked_and_whoever_has_most_leads() -> None:
    cluster = struck()
    recovery = LeaderRecovery()
    assert cluster.partition().last_known_eligible == (2, 3)
    assert recovery.look(cluster.image)
    assert dict(recovery.questions(cluster.image)) == {
        1: [ref(cluster)],
        2: [ref(cluster)],
        3: [ref(cluster)],
    }

    answer(recovery, cluster, 3, 0, 90)
    answer(recovery, cluster, 1, 0, 100)
    assert recovery.ready(cluster.image, NOW) is None, "2 may have more"
    answer(recovery, cluster, 2, 0, 100)
    command = recovery.ready(cluster.image, NOW)

    assert command is not None
    assert cluster.do(command) == 1
    assert shape(cluster.partition()) == (1, (1,), ())
    check_invariants(cluster)
    recovery.done(command)
    assert not recovery.look(cluster.image)


def test_who_need_not_have_everything_is_not_waited_for_without_end() -> None:
    cluster = struck()
    recovery = LeaderRecovery()
    recovery.look(cluster.image)
    answer(recovery, cluster, 2, 0, 100)
    answer(recovery, cluster, 3, 0, 100)

    assert recovery.ready(cluster.image, NOW) is None
    assert recovery.ready(cluster.image, Instant(NOW + LATECOMERS_MS - 1)) is None
    assert recovery.ready(cluster.image, Instant(NOW + LATECOMERS_MS)) is not None


def test_what_was_said_in_an_earlier_life_does_not_count() -> None:
    cluster = struck()
    recovery = LeaderRecovery()
    recovery.look(cluster.image)
    for broker in (1, 2, 3):
        answer(recovery, cluster, broker, 0, 100)
    command = recovery.ready(cluster.image, NOW)
    assert command is not None

    cluster.join(2)

    assert cluster.do(command) == 0
    assert cluster.partition().leader == NO_LEADER
    recovery.look(cluster.image)
    assert recovery.ready(cluster.image, NOW) is None
    assert dict(recovery.questions(cluster.image)) == {2: [ref(cluster)]}


def test_who_does_not_know_yet_that_nobody_leads_is_asked_again() -> None:
    cluster = struck()
    recovery = LeaderRecovery()
    recovery.look(cluster.image)

    earlier = cluster.partition().leader_epoch - 1
    recovery.answered(BrokerId(2), cluster.epoch(2), ref(cluster), earlier, LogEnd(0, 100))

    assert recovery.waits_for == {ref(cluster): [2, 3]}
    assert BrokerId(2) in dict(recovery.questions(cluster.image))


def test_a_partition_that_got_its_leader_otherwise_is_left_alone() -> None:
    cluster = struck()
    recovery = LeaderRecovery()
    recovery.look(cluster.image)
    answer(recovery, cluster, 1, 0, 100)
    cluster.do(ElectLeaders(ElectionType.UNCLEAN, (("orders", 0),)))
    led = cluster.partition()
    assert led.leader == 2, "one that was eligible before one that was not"

    stale = RecoverLeaders({ref(cluster): {one: Said(cluster.epoch(one), LogEnd(9, 9)) for one in (1, 2, 3)}})

    assert cluster.do(stale) == 0
    assert cluster.partition() == led
    assert not recovery.look(cluster.image)


def test_whoever_accepts_a_loss_gets_the_most_that_is_there() -> None:
    cluster = struck()
    recovery = LeaderRecovery()
    recovery.look(cluster.image)
    cluster.fence(3)
    answer(recovery, cluster, 1, 0, 100)
    answer(recovery, cluster, 2, 0, 80)

    reply = cluster.do(ElectLeaders(ElectionType.UNCLEAN, (("orders", 0),), ends=recovery.ends))

    assert reply == {("orders", 0): None}
    assert shape(cluster.partition()) == (1, (1,), ())


def test_a_question_is_about_so_many_partitions_at_most() -> None:
    cluster = struck(partitions=PARTITIONS_PER_QUESTION + 1)
    recovery = LeaderRecovery()
    recovery.look(cluster.image)

    asked = dict(recovery.questions(cluster.image))

    assert {broker: len(refs) for broker, refs in asked.items()} == dict.fromkeys(
        (1, 2, 3), PARTITIONS_PER_QUESTION
    )


def test_nothing_is_asked_where_one_replica_is_all_there_is() -> None:
    cluster = struck(replicas=(1,), least="1")

    assert cluster.partition().leader == 1
    assert not LeaderRecovery().look(cluster.image)


def test_a_log_of_an_epoch_that_nobody_has_led_counts_least() -> None:
    cluster = struck()
    recovery = LeaderRecovery()
    recovery.look(cluster.image)
    answer(recovery, cluster, 1, 0, 100)
    answer(recovery, cluster, 2, cluster.partition().leader_epoch + 1, 900)
    answer(recovery, cluster, 3, 0, 100)

    command = recovery.ready(cluster.image, NOW)
    assert command is not None
    cluster.do(command)

    assert cluster.partition().leader == 1
