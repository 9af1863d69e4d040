"""The partitions that this broker holds, found by name or by id, and in which role it holds each."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from everlog.log.partition import PartitionLog
from everlog.metadata.image import NO_LEADER
from everlog.model.ids import LeaderEpoch, Offset, Uuid
from everlog.model.topics import INTERNAL_TOPICS, TopicPartition
from everlog.replication.follower import FollowerState
from everlog.replication.leader import LeaderState

if TYPE_CHECKING:
    from everlog.broker.commit_waits import CommitWait
    from everlog.broker.parked import ParkedFetch
    from everlog.broker.replica_sessions import Followed

_NOTHING = Offset(0)


class Replica:
    """One partition held here. Its log is opened, or made, when it is first used.

    Where it is the only replica it leads, and its high watermark is its end. Where there are others it leads
    or follows under one leader epoch, and `leading` or `following` says what is known of that; both begin
    when the log is opened.
    """

    __slots__ = (
        "_open_log",
        "commit_waits",
        "directory",
        "followers",
        "following",
        "internal",
        "leader",
        "leader_epoch",
        "leading",
        "leads",
        "log",
        "lost",
        "min_insync",
        "name",
        "noted_high_watermark",
        "slowed_here",
        "slowed_readers",
        "sole",
        "sync_wanted",
        "syncs_owed",
        "topic_id",
        "watchers",
    )

    def __init__(
        self,
        name: TopicPartition,
        topic_id: Uuid,
        leader_epoch: LeaderEpoch,
        min_insync: int,
        open_log: Callable[["Replica"], PartitionLog],
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.leader: int = NO_LEADER
        """Who leads, -1 if nobody does."""
        self.leader_epoch = leader_epoch
        self.leads = False
        """Whether it leads here, in `leader_epoch`."""
        self.sole = True
        """Whether there is no other replica: then what is here is all that there is."""
        self.leading: LeaderState | None = None
        self.following: FollowerState | None = None
        self.internal = name.topic in INTERNAL_TOPICS
        """Whether it is a coordinator's, which clients may read and may not write to."""
        self.min_insync = min_insync
        """`min.insync.replicas` of the topic."""
        self.log: PartitionLog | None = None
        self.directory = ""
        """The log directory that holds it; known once the log is open."""
        self.lost = False
        """Whether its directory has failed: then it has no log and no role until the next start."""
        self._open_log = open_log
        self.noted_high_watermark = _NOTHING
        """The high watermark as it was known in the last role; not above the log's end once that is open."""
        self.watchers: dict[ParkedFetch, None] = {}
        """Consumers' fetches that wait for records of this partition, in the order they came."""
        self.followers: dict[int, Followed] = {}
        """Brokers that fetch the partition from here, and how far they are."""
        self.commit_waits: list[CommitWait] = []
        """Who waits for records here to be committed, in the order of their offsets."""
        self.sync_wanted = _NOTHING
        """Up to here, acknowledgements wait for a sync: where the last append ended that asked for one."""
        self.slowed_readers: tuple[str, ...] = ()
        """Whose readers are sent no more than the throttle allows while they catch up, as Kafka names it."""
        self.slowed_here = False
        """Whether this replica takes no more than the throttle allows while it catches up."""
        self.syncs_owed = 0
        """Syncs that were asked for and have not ended."""

    def opened(self) -> PartitionLog:
        """Return the log, opening it if need be; StorageError if the disk does not let us."""
        log = self.log
        if log is None:
            log = self._open_log(self)
        return log

    @property
    def high_watermark(self) -> Offset:
        """Up to where consumers may read: what is committed, as far as it is known here."""
        log = self.opened()
        if self.sole:
            return log.end_offset
        if self.leading is not None:
            return self.leading.high_watermark
        if self.following is not None:
            return self.following.high_watermark
        return min(self.noted_high_watermark, log.end_offset)

    @property
    def last_stable_offset(self) -> Offset:
        """Up to where nothing is undecided: the first open transaction, or the high watermark."""
        return self.opened().last_stable_offset(self.high_watermark)


class Replicas:
    """All replicas of a broker."""

    def __init__(self) -> None:
        self.by_name: dict[str, dict[int, Replica]] = {}
        self.by_id: dict[bytes, dict[int, Replica]] = {}

    def __iter__(self) -> Iterator[Replica]:
        for partitions in self.by_name.values():
            yield from partitions.values()

    def get(self, topic: str | bytes, partition: int) -> Replica | None:
        """Find a partition by its topic's name, or by its topic's id."""
        partitions = self.by_name.get(topic) if isinstance(topic, str) else self.by_id.get(topic)
        return None if partitions is None else partitions.get(partition)

    def add(self, replica: Replica) -> None:
        """Take a partition in."""
        partitions = self.by_name.setdefault(replica.name.topic, {})
        partitions[replica.name.partition] = replica
        self.by_id[replica.topic_id] = partitions

    def remove(self, replica: Replica) -> None:
        """Give one partition up, whose topic stays."""
        partitions = self.by_name[replica.name.topic]
        del partitions[replica.name.partition]
        if not partitions:
            del self.by_name[replica.name.topic]
            self.by_id.pop(replica.topic_id, None)

    def remove_topic(self, name: str) -> list[Replica]:
        """Give all partitions of a topic up, and return them."""
        partitions = self.by_name.pop(name, {})
        for replica in partitions.values():
            self.by_id.pop(replica.topic_id, None)
        return list(partitions.values())
