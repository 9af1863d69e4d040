"""Desk: where a controller is asked, and what it does about brokers that come and go (R5, R8)."""

import logging
from collections.abc import Mapping
from functools import partial

from everlog.broker.desk import dispatch
from everlog.broker.desk.recovery import RecoveryErrand
from everlog.broker.direct_exchange import DirectExchange
from everlog.broker.exchange import Exchange
from everlog.broker.session import Session
from everlog.controller import Controller
from everlog.controller.balance import Balancer
from everlog.controller.fencing import fence
from everlog.controller.heartbeats import Heartbeats
from everlog.controller.leader_recovery import Ends
from everlog.metadata.image import BrokerImage, ClusterImage
from everlog.model.errors import Refused, StorageError
from everlog.model.ids import BrokerId, Instant
from everlog.model.settings import BrokerSettings
from everlog.model.settings import broker_table as keys
from everlog.peers.address import Address
from everlog.peers.peers import Peers
from everlog.ports.alarm import Alarm
from everlog.ports.clock import Clock
from everlog.raft.member import QuorumMember
from everlog.wire.message import Message

_log = logging.getLogger(__name__)


class Desk:
    """A controller's desk. It serves whether or not its controller leads: who does not, says so.

    A broker whose process has ended is noticed by its connections: when the one that it beat on closes, and
    for every broker when a controller takes over, we try to connect to it. Where nobody listens there is no
    process, and others lead at once; where there is any doubt, the session time-out decides.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        cluster_id: str,
        quorum: QuorumMember,
        controller: Controller,
        peers: Peers,
        clock: Clock,
        alarm: Alarm,
    ) -> None:
        self.static_settings = settings
        self.settings = settings
        self.node_id: BrokerId = settings.node_id
        self.cluster_id = cluster_id
        self.quorum = quorum
        self.controller = controller
        self.clock = clock
        self.alarm = alarm
        self.advertised: Mapping[int, tuple[int, int]] = dispatch.ADVERTISED
        self.heartbeats = Heartbeats(settings[keys.BROKER_SESSION_TIMEOUT_MS])
        self._balancer = Balancer(controller, settings)
        self._recovery = RecoveryErrand(controller, peers, settings.inter_broker_listener, clock, alarm)
        self._peers = peers
        self._beats: dict[Session, tuple[BrokerId, int]] = {}
        """The connections that brokers beat on, with the broker's number and epoch."""
        self._ended: tuple[BrokerId, int] | None = None
        """The broker, and its epoch, that was the active controller and whose process has ended."""
        controller.on_active = self._activated
        quorum.on_leader_gone = self._leader_gone

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is committed."""
        return self.controller.image

    @property
    def recovered_ends(self) -> Ends:
        """How far logs reach of partitions whose eligible replicas all stopped uncleanly, as far as known."""
        return self._recovery.ends

    def dispatch(self, api_key: int, exchange: Exchange, frame: memoryview, after_client_id: int) -> None:
        """Hand one request to its handler; ProtocolError if it cannot be read or is not served."""
        dispatch.dispatch(self, api_key, exchange, frame)

    def serve(self, request: Message, exchange: Exchange) -> None:
        """Hand over a request that is decoded already, as one of this very node is."""
        assert request.KEY is not None, request
        dispatch.handler(request.KEY)(self, request, exchange)

    # --- brokers that come and go

    def brokers_changed(self) -> None:
        """Somebody has come or gone, which may tell who is to lead what nobody leads."""
        if self.controller.is_active:
            self.alarm.ring_by(self.clock.now())

    def heard(self, broker: BrokerId, epoch: int, exchange: Exchange) -> None:
        """A broker beats on the connection of this exchange."""
        self._ring()
        if not isinstance(exchange, DirectExchange):
            self._beats[exchange.session] = (broker, epoch)

    def session_closed(self, session: Session) -> None:
        """A connection has gone; if a broker beat on it, look whether its process has."""
        beat = self._beats.pop(session, None)
        if beat is not None and self.controller.is_active:
            known = self.image.brokers.get(beat[0])
            if known is not None and known.epoch == beat[1] and not known.fenced:
                self._look_for(known)

    def tick(self, now: Instant) -> None:
        """Fence the brokers that were not heard of for too long, and give leads back that are elsewhere."""
        if not self.controller.is_active:
            return
        for broker, epoch in self.heartbeats.overdue(now):
            _log.warning("broker %d was not heard of for too long and is fenced", broker)
            self._fence(broker, epoch)
        self._balancer.tick(now)
        self._recovery.tick(now)
        self._ring()

    def _activated(self) -> None:
        now = self.clock.now()
        # Whoever has our own number is this very process, or one that it has come after.
        others = [broker for broker in self.image.brokers.values() if broker.id != self.node_id]
        self.heartbeats.begin(others, now)
        self._balancer.begin(now)
        self._recovery.begin()
        self._ring()
        for broker in others:
            if broker.fenced:
                continue
            if (broker.id, broker.epoch) == self._ended:
                _log.warning(
                    "broker %d was the active controller and has ended, so that it is fenced", broker.id
                )
                self._fence(broker.id, broker.epoch)
            else:
                self._look_for(broker)

    def _leader_gone(self, node: int) -> None:
        """Nobody listens where the active controller did: the broker in that process has ended too."""
        known = self.image.brokers.get(BrokerId(node))
        self._ended = None if known is None else (known.id, known.epoch)

    def _look_for(self, broker: BrokerImage) -> None:
        endpoint = broker.endpoint(self.settings.inter_broker_listener) or next(iter(broker.endpoints), None)
        if endpoint is None:
            return
        peer = self._peers.at(Address(endpoint.host, endpoint.port), lane="probe")
        peer.find_out_if_gone(partial(self._looked_for, broker))

    def _looked_for(self, broker: BrokerImage, refused: bool) -> None:
        if refused and self.controller.is_active:
            _log.warning("nobody listens where broker %d did, so that it is fenced", broker.id)
            self._fence(broker.id, broker.epoch)

    def _fence(self, broker: BrokerId, epoch: int) -> None:
        def done(reply: Refused | StorageError | None) -> None:
            if reply is not None:
                _log.info("broker %d is not fenced: %s", broker, reply)
            else:
                self.heartbeats.forget(broker)

        fence(self.controller, broker, epoch, done)

    def _ring(self) -> None:
        for deadline in (self.heartbeats.deadline(), self._balancer.deadline()):
            if deadline is not None:
                self.alarm.ring_by(deadline)
