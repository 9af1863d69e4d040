"""What a controller tells the active one of itself: where it listens (KIP-853, KIP-919), what it supports.

It registers once in each life of its process. Where the voters are records of the log, one that listens
elsewhere than they say has that changed: the others could not reach it.
"""

import logging
from typing import Final, Protocol

from everlog.broker.lifecycle import Channel
from everlog.metadata.features import SUPPORTED_FEATURES
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import NO_UUID, Instant, Uuid
from everlog.model.settings.listeners import Listener
from everlog.peers.address import Address
from everlog.ports.alarm import Alarm
from everlog.ports.clock import Clock
from everlog.raft.messages import ReplicaKey
from everlog.raft.voters import VoterSet
from everlog.wire.message import Message
from everlog.wire.messages import controller_registration as registration
from everlog.wire.messages import update_raft_voter as update

_log = logging.getLogger(__name__)

_VERSION: Final = 0
_TIMEOUT_MS: Final = 10_000
RETRY_MS: Final = 1_000
_EVERYWHERE: Final = frozenset({"", "0.0.0.0", "::"})
"""Hosts that say where to listen and not where to be found."""


class Quorum(Protocol):
    """What has to be known of the quorum."""

    me: ReplicaKey

    @property
    def voters(self) -> VoterSet:
        """Who votes, and where each listens."""
        ...

    @property
    def epoch(self) -> int:
        """The newest epoch that is known of."""
        ...


class ControllerErrands:
    """One life of a controller's process, as far as others have to know of it."""

    def __init__(
        self,
        quorum: Quorum,
        channel: Channel,
        cluster_id: str,
        incarnation: Uuid,
        listeners: tuple[Listener, ...],
        clock: Clock,
        alarm: Alarm,
    ) -> None:
        """`listeners` are those for controllers; without any there is nobody to tell."""
        self._quorum = quorum
        self._channel = channel
        self._cluster_id = cluster_id
        self._incarnation = incarnation
        self._listeners = tuple(one for one in listeners if one.host not in _EVERYWHERE)
        self._clock = clock
        self._alarm = alarm
        self.registered = not listeners
        """Whether the active controller knows of this life."""
        self._asking = False
        self._due = Instant(0)

    def tick(self, now: Instant) -> None:
        """Tell what is not known, one thing at a time."""
        if self._asking or (self.registered and self._is_where_voters_look()):
            return
        if self._due > now:
            self._alarm.ring_by(self._due)
            return
        self._asking = True
        if not self.registered:
            self._channel.ask(self._registration(), _VERSION, self._answered, _TIMEOUT_MS)
        else:
            self._channel.ask(self._update(), _VERSION, self._answered, _TIMEOUT_MS)

    def _is_where_voters_look(self) -> bool:
        me = self._quorum.me
        voters = self._quorum.voters
        known = voters.key(me.id)
        # Voters of the settings have no directories, and are changed there.
        if known is None or known.directory == NO_UUID or known != me or not self._listeners:
            return True
        return voters.address(me.id) == Address(self._listeners[0].host, self._listeners[0].port)

    def _registration(self) -> Message:
        return registration.ControllerRegistrationRequest(
            controller_id=self._quorum.me.id,
            incarnation_id=self._incarnation,
            listeners=[
                registration.Listener(
                    name=one.name, host=one.host, port=one.port, security_protocol=one.protocol
                )
                for one in self._listeners
            ],
            features=[
                registration.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
        )

    def _update(self) -> Message:
        me = self._quorum.me
        return update.UpdateRaftVoterRequest(
            cluster_id=self._cluster_id,
            current_leader_epoch=self._quorum.epoch,
            voter_id=me.id,
            voter_directory_id=me.directory,
            listeners=[
                update.Listener(name=one.name, host=one.host, port=one.port) for one in self._listeners
            ],
        )

    def _answered(self, answer: Message | Refused) -> None:
        self._asking = False
        code = answer.code if isinstance(answer, Refused) else ErrorCode.NONE
        if isinstance(answer, registration.ControllerRegistrationResponse):
            code = ErrorCode(answer.error_code)
            self.registered = code is ErrorCode.NONE
        elif isinstance(answer, update.UpdateRaftVoterResponse):
            code = ErrorCode(answer.error_code)
        if code is not ErrorCode.NONE:
            _log.info(
                "controller %d could not say where it is, and will again: %s", self._quorum.me.id, code.name
            )
        # Also after a success: the log that says so may come later than the answer.
        self._due = Instant(self._clock.now() + RETRY_MS)
        self._alarm.ring_by(self._due)
