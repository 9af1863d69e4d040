"""Replicas whose stored bytes have changed: others lead, and what is damaged is fetched again (L10, R6).

Damage is found when records are read. They are served to nobody; but a replica that has them counts as in
sync, and may lead, while it lacks what it should have. So the controller is asked to take it out, as one that
stopped uncleanly, and to begin a leader epoch. Before it fetches anything in an epoch that begins without it,
it gives up the damaged segment and what lies behind (`Replication`): later the leader might take it for one
that has everything. Where nobody else is in sync it stays as it is: what it has beside the damage may be the
only copy, and is served. A leader that its disk goes on refusing is taken out the same way (`Healing`).
"""

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from everlog.broker.replicas import Replica
from everlog.metadata.image import LOST_DIRECTORY, PartitionImage
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Instant
from everlog.wire.message import Message
from everlog.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_log = logging.getLogger(__name__)

_VERSION: Final = 0
_TIMEOUT_MS: Final = 30_000
RETRY_MS: Final = 500
"""How long to wait before the controller is asked again."""


class Repairs:
    """The replicas of this broker that are damaged or in doubt, as far as it was noticed."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._damaged: dict[Replica, Instant | None] = {}
        """When to ask again; None until what was asked is answered."""

    def note(self, replica: Replica) -> None:
        """Damage was found: have it mended, where others have what is lost here."""
        if not replica.sole and replica not in self._damaged:
            now = self._broker.clock.now()
            self._damaged[replica] = now
            self._broker.alarm.ring_by(now)

    def tick(self, now: Instant) -> None:
        """Ask for what it takes to mend what is damaged."""
        for replica, due in list(self._damaged.items()):
            partition = self._partition(replica)
            if partition is None or replica.sole:
                del self._damaged[replica]
            elif due is not None:
                if due <= now:
                    self._ask(replica, partition, now)
                else:
                    self._broker.alarm.ring_by(due)

    def _partition(self, replica: Replica) -> PartitionImage | None:
        """The partition, if its log here still is what was found, and somebody counts on it."""
        log = replica.log
        if replica.lost or log is None or (log.failure is not None and not log.in_doubt):
            return None
        if self._broker.replicas.get(replica.topic_id, replica.name.partition) is not replica:
            return None
        partition = self._broker.image.topics_by_id[replica.topic_id].partitions[replica.name.partition]
        if log.damaged_at is None and not (log.in_doubt and replica.leads):
            return None
        return partition

    def _ask(self, replica: Replica, partition: PartitionImage, now: Instant) -> None:
        again_at = Instant(now + RETRY_MS)
        if not any(one != self._broker.node_id for one in partition.isr):
            # Whatever is lost here, nobody is known to have it.
            self._damaged[replica] = again_at
            self._broker.alarm.ring_by(again_at)
            return
        self._damaged[replica] = None
        number = RequestPartitionData(partition_index=replica.name.partition)
        request = AssignReplicasToDirsRequest(
            broker_id=self._broker.node_id,
            broker_epoch=self._broker.epoch,
            directories=[
                RequestDirectoryData(
                    id=LOST_DIRECTORY,
                    topics=[RequestTopicData(topic_id=replica.topic_id, partitions=[number])],
                )
            ],
        )
        self._broker.channel.ask(request, _VERSION, partial(self._answered, replica), _TIMEOUT_MS)

    def _answered(self, replica: Replica, answer: Message | Refused) -> None:
        if replica not in self._damaged:
            return
        if not isinstance(answer, AssignReplicasToDirsResponse) or answer.error_code:
            why = ErrorCode(answer.error_code) if isinstance(answer, AssignReplicasToDirsResponse) else answer
            _log.info("%s could not be taken out of the ISR, and will be tried again: %r", replica.name, why)
        again_at = Instant(self._broker.clock.now() + RETRY_MS)
        self._damaged[replica] = again_at
        self._broker.alarm.ring_by(again_at)
