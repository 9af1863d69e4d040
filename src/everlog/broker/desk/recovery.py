"""RecoveryErrand: asks replicas how far their logs reach where nobody knows who has everything (KIP-966)."""

import logging
from functools import partial
from typing import Protocol

from everlog.controller.elections import LogEnd
from everlog.controller.fencing import Decider
from everlog.controller.leader_recovery import ASK_AGAIN_MS, Ends, LeaderRecovery, RecoverLeaders
from everlog.controller.partition_changes import PartitionRef
from everlog.metadata.image import ClusterImage
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import BrokerId, Instant, Uuid
from everlog.peers.address import Address
from everlog.peers.peers import Peers
from everlog.ports.alarm import Alarm
from everlog.ports.clock import Clock
from everlog.wire.message import Message
from everlog.wire.messages.get_replica_log_info import (
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    LogInfoTopic,
)

_log = logging.getLogger(__name__)

_VERSION = 0
_ANSWER_MS = 10_000
"""How long a broker may take to answer: it may have to read logs for that."""
_LANE = "recovery"


class Deciding(Decider, Protocol):
    """The controller, as far as it is needed here."""

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is committed."""
        ...

    @property
    def is_active(self) -> bool:
        """Whether it leads."""
        ...


class RecoveryErrand:
    """The questions of the active controller that are on their way, and what is done about the answers."""

    def __init__(
        self, controller: Deciding, peers: Peers, listener_name: str, clock: Clock, alarm: Alarm
    ) -> None:
        self._controller = controller
        self._peers = peers
        self._listener_name = listener_name
        self._clock = clock
        self._alarm = alarm
        self._recovery = LeaderRecovery()
        self._asked: dict[BrokerId, Instant | None] = {}
        """Brokers that are not to be asked before then; None until what they were asked is answered."""
        self._waits_for: frozenset[int] = frozenset()
        self._deciding = False
        self._lead = 0
        """Answers to what was asked in an earlier lead say nothing any more."""

    @property
    def ends(self) -> Ends:
        """What replicas have said of partitions that have no leader yet."""
        return self._recovery.ends

    def begin(self) -> None:
        """This node has taken the lead."""
        self._recovery.begin()
        self._asked.clear()
        self._deciding = False
        self._lead += 1
        self._alarm.ring_by(self._clock.now())

    def tick(self, now: Instant) -> None:
        """Ask whoever is to be asked and elect where enough is known; only while this node leads."""
        image = self._controller.image
        if not self._recovery.look(image):
            self._waits_for = frozenset()
            return
        self._alarm.ring_by(Instant(now + ASK_AGAIN_MS))
        command = None if self._deciding else self._recovery.ready(image, now)
        if command is not None:
            self._deciding = True
            self._controller.submit(command, partial(self._decided, self._lead, command))
        for broker, refs in self._recovery.questions(image):
            self._ask(image, broker, refs, now)
        self._tell()

    def _ask(self, image: ClusterImage, broker: BrokerId, refs: list[PartitionRef], now: Instant) -> None:
        if broker in self._asked:
            again_at = self._asked[broker]
            if again_at is None or now < again_at:
                return
        endpoint = image.brokers[broker].endpoint(self._listener_name)
        if endpoint is None:
            return
        topics: dict[Uuid, list[int]] = {}
        for ref in refs:
            topics.setdefault(ref.topic_id, []).append(ref.number)
        request = GetReplicaLogInfoRequest(
            topic_partitions=[LogInfoTopic(topic_id=id_, partitions=some) for id_, some in topics.items()]
        )
        self._asked[broker] = None
        peer = self._peers.at(Address(endpoint.host, endpoint.port), _LANE)
        peer.ask(request, _VERSION, _ANSWER_MS, partial(self._answered, self._lead, broker))

    def _answered(self, lead: int, broker: BrokerId, answer: Message | Exception) -> None:
        if lead != self._lead:
            return
        self._asked[broker] = Instant(self._clock.now() + ASK_AGAIN_MS)
        if not isinstance(answer, GetReplicaLogInfoResponse):
            return
        heard = False
        for topic in answer.topic_partition_log_info_list:
            for one in topic.partition_log_info:
                if one.error_code == ErrorCode.NONE:
                    heard = True
                    self._recovery.answered(
                        broker,
                        answer.broker_epoch,
                        PartitionRef(topic.topic_id, one.partition),
                        one.current_leader_epoch,
                        LogEnd(one.last_written_leader_epoch, one.log_end_offset),
                    )
        if heard and self._controller.is_active:
            # There may be more to ask for, or enough known.
            del self._asked[broker]
            self.tick(self._clock.now())

    def _decided(self, lead: int, command: RecoverLeaders, reply: int | Refused | StorageError) -> None:
        if lead != self._lead:
            return
        self._deciding = False
        self._recovery.done(command)
        if isinstance(reply, int):
            _log.warning(
                "%d partitions whose eligible replicas all stopped uncleanly are led by those that have most",
                reply,
            )
        else:
            _log.info("leaders were not recovered: %s", reply)

    def _tell(self) -> None:
        """Tell the operator who is waited for, once each time that changes."""
        missing = self._recovery.waits_for
        brokers = frozenset(one for some in missing.values() for one in some)
        if brokers != self._waits_for and brokers:
            _log.warning(
                "%d partitions have no leader: all that were eligible stopped uncleanly, and brokers %s have "
                "not said yet what they have. Where they do not come back, `everlog cluster elect unclean` "
                "lets others lead",
                sum(map(bool, missing.values())),
                sorted(brokers),
            )
        self._waits_for = brokers
