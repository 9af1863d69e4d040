"""What makes a cluster unhealthy, one trouble at a time, and what does not."""

from collections.abc import Sequence

import pytest

from everlog.client.core.admin.cluster import ClusterDescription, Quorum, QuorumReplica
from everlog.client.core.admin.health import ClusterFacts, HealthLimits, Trouble, examine
from everlog.client.core.admin.log_dirs import LogDir
from everlog.client.core.admin.topics import TopicDescription
from everlog.client.core.metadata import Broker, Partition
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import NO_UUID

NOW = 1_000_000


def a_topic(*partitions: Partition) -> dict[str, TopicDescription]:
    return {"t": TopicDescription("t", NO_UUID, False, {each.index: each for each in partitions})}


def a_partition(
    index: int = 0,
    leader: int = 1,
    isr: Sequence[int] = (1, 2, 3),
    offline: Sequence[int] = (),
    replicas: Sequence[int] = (1, 2, 3),
) -> Partition:
    return Partition(index, leader, 0, replicas, isr, offline)


def facts(
    *partitions: Partition,
    min_isr: int = 2,
    fenced: frozenset[int] = frozenset(),
    quorum: Quorum | None = None,
    log_dirs: Sequence[LogDir] = (),
    unreachable: dict[int, str] | None = None,
) -> ClusterFacts:
    brokers = [Broker(node, "h", 9092) for node in (1, 2, 3)]
    return ClusterFacts(
        ClusterDescription("c", 1, brokers, fenced),
        a_topic(*(partitions or (a_partition(),))),
        {"t": min_isr},
        quorum,
        log_dirs,
        unreachable or {},
    )


def a_quorum(*caught_up_ago_ms: int | None, behind: int = 0) -> Quorum:
    """Voters 1, 2, …; the first leads."""
    voters = [
        QuorumReplica(node, 100 if node == 1 else 100 - behind, NOW, None if ago is None else NOW - ago)
        for node, ago in enumerate(caught_up_ago_ms, start=1)
    ]
    return Quorum(1, 1, 100, voters, [])


def troubles(found: ClusterFacts) -> list[tuple[Trouble, str]]:
    return [(finding.trouble, finding.subject) for finding in examine(found)]


def test_a_sound_cluster_has_no_trouble() -> None:
    disk = LogDir(1, "/d", 1000, 500, {})

    assert examine(facts(quorum=a_quorum(0, 10, 20), log_dirs=[disk])) == []


@pytest.mark.parametrize(
    ("found", "trouble", "subject"),
    [
        (facts(a_partition(isr=(1, 2))), Trouble.UNDER_REPLICATED, "t-0"),
        (facts(a_partition(offline=(3,))), Trouble.OFFLINE_REPLICAS, "t-0"),
        (facts(fenced=frozenset({2})), Trouble.FENCED, "broker 2"),
        (facts(a_partition(replicas=(1, 2, 9), isr=(1, 2, 9))), Trouble.FENCED, "broker 9"),
        (facts(unreachable={3: "refused"}), Trouble.UNREACHABLE, "broker 3"),
        (facts(log_dirs=[LogDir(2, "/d", 1000, 99, {})]), Trouble.FULL_DISK, "/d of broker 2"),
        (
            facts(
                log_dirs=[LogDir(2, "/d", -1, -1, {}, error=Refused(ErrorCode.KAFKA_STORAGE_ERROR, "broken"))]
            ),
            Trouble.FAILED_DIRECTORY,
            "/d of broker 2",
        ),
        (facts(a_partition(leader=2)), Trouble.UNEVEN_LEADERS, "broker 1"),
    ],
)
def test_each_trouble_is_found_by_itself(found: ClusterFacts, trouble: Trouble, subject: str) -> None:
    assert troubles(found) == [(trouble, subject)]


def test_a_partition_that_nobody_leads_comes_first() -> None:
    found = troubles(facts(a_partition(leader=-1, isr=(2,))))

    assert [trouble for trouble, _ in found] == [
        Trouble.LEADERLESS,
        Trouble.UNDER_MIN_ISR,
        Trouble.UNDER_REPLICATED,
        Trouble.UNEVEN_LEADERS,
    ]


def test_no_more_need_be_in_sync_than_there_are_replicas() -> None:
    alone = a_partition(replicas=(1,), isr=(1,))

    assert examine(facts(alone, min_isr=2)) == []


def test_a_broker_that_is_fenced_is_not_unreachable_as_well() -> None:
    assert troubles(facts(fenced=frozenset({3}), unreachable={3: "refused"})) == [
        (Trouble.FENCED, "broker 3")
    ]


def test_voters_that_lag_leave_none_to_spare() -> None:
    assert troubles(facts(quorum=a_quorum(0, 20_000, 0))) == [
        (Trouble.LAGGING_VOTER, "voter 2"),
        (Trouble.NO_SPARE_VOTER, "quorum"),
    ]
    assert troubles(facts(quorum=a_quorum(0, 20_000, 0, 0, 0))) == [(Trouble.LAGGING_VOTER, "voter 2")]
    assert troubles(facts(quorum=a_quorum(0, None)))[0] == (Trouble.LAGGING_VOTER, "voter 2")
    assert troubles(facts(quorum=a_quorum(0, 0, behind=5_001)))[0] == (Trouble.LAGGING_VOTER, "voter 2")
    assert examine(facts(quorum=a_quorum(0, 10_000, 10_000))) == []


def test_leaders_that_are_elsewhere_are_a_notice_from_a_tenth_on() -> None:
    ten = [a_partition(index, leader=2 if index == 0 else 1) for index in range(10)]
    two = [a_partition(index, leader=2 if index < 2 else 1) for index in range(10)]

    assert examine(facts(*ten)) == []
    (notice,) = examine(facts(*two))
    assert notice.is_notice
    assert notice.detail == "others lead 2 of the 10 partitions that it should lead"


def test_limits_can_be_chosen() -> None:
    disk = LogDir(1, "/d", 1000, 500, {})

    (full,) = examine(facts(log_dirs=[disk]), HealthLimits(disk_used_percent=50))

    assert full.detail == "50.0 % used, expected less than 50 %"
