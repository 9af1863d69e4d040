"""Lifecycle: a broker among the others: it registers, beats, is let in, hands over and leaves (R5, R8)."""

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from everlog.metadata.features import SUPPORTED_FEATURES
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Instant, Offset, Uuid
from everlog.model.settings import BrokerSettings
from everlog.model.settings import broker_table as keys
from everlog.model.settings.listeners import Listener
from everlog.ports.alarm import Alarm
from everlog.ports.clock import Clock
from everlog.wire.message import Message
from everlog.wire.messages import broker_registration as registration
from everlog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

_log = logging.getLogger(__name__)

REGISTRATION_VERSION = 4
HEARTBEAT_VERSION = 1
_AGAIN_MS = 50
"""How long to wait before a refused registration is tried again, and between beats of one that leaves."""


class Channel(Protocol):
    """The way to whichever controller is active."""

    def ask(
        self, request: Message, version: int, done: Callable[[Message | Refused], None], timeout_ms: int
    ) -> None:
        """Give `done` the controller's answer, or Refused when the time is over."""
        ...


class Lifecycle:
    """One life of a broker's process."""

    def __init__(
        self,
        settings: BrokerSettings,
        cluster_id: str,
        incarnation: Uuid,
        directories: Iterable[Uuid],
        previous_epoch: int,
        channel: Channel,
        clock: Clock,
        alarm: Alarm,
    ) -> None:
        self._settings = settings
        self._cluster_id = cluster_id
        self.incarnation = incarnation
        """Which life it is, for the controller to tell it from others of the same broker."""
        self._directories = list(directories)
        self._previous_epoch = previous_epoch
        self._channel = channel
        self._clock = clock
        self._alarm = alarm
        self.epoch = -1
        """The epoch of this life, once it is registered."""
        self._metadata_offset: Callable[[], Offset] | None = None
        self._due: Instant | None = None
        """When the next beat, or the next attempt to register, goes."""
        self._then: Callable[[], None] = self._beat
        self._beating = False
        self._again = False
        """Whether the next beat goes as soon as this one is answered."""
        self.offline: Callable[[], list[Uuid]] = list
        """The directories that have failed this broker, which every beat names."""
        self._leaving: Callable[[], None] | None = None
        """Told when the controller lets this broker go."""

    # --- coming

    def register(self, listeners: Iterable[Listener], done: Callable[[Refused | None], None]) -> None:
        """Register with where it listens; `done` comes once that is committed, or with why it will not be.

        Our own life before this one may still count as alive; then it is tried again for a while.
        """
        request = registration.BrokerRegistrationRequest(
            broker_id=self._settings.node_id,
            cluster_id=self._cluster_id,
            incarnation_id=self.incarnation,
            listeners=[
                registration.Listener(
                    name=one.name, host=one.host, port=one.port, security_protocol=one.protocol
                )
                for one in listeners
            ],
            features=[
                registration.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
            rack=self._settings[keys.BROKER_RACK],
            log_dirs=self._directories,
            previous_broker_epoch=self._previous_epoch,
        )
        limit_ms = self._settings[keys.INITIAL_BROKER_REGISTRATION_TIMEOUT_MS]
        until = self._clock.now() + limit_ms

        def ask() -> None:
            left = max(1, until - self._clock.now())
            self._channel.ask(request, REGISTRATION_VERSION, answered, left)

        def answered(answer: Message | Refused) -> None:
            if isinstance(answer, Refused):
                done(answer)
                return
            assert isinstance(answer, registration.BrokerRegistrationResponse), answer
            code = ErrorCode(answer.error_code)
            if code is ErrorCode.NONE:
                self.epoch = answer.broker_epoch
                done(None)
            elif code is ErrorCode.DUPLICATE_BROKER_REGISTRATION and self._clock.now() < until:
                self._wait(_AGAIN_MS, ask)
            else:
                done(Refused(code, f"broker {self._settings.node_id} cannot register: {code.name}"))

        ask()

    def beat(self, metadata_offset: Callable[[], Offset]) -> None:
        """Beat from now on: it has taken in its registration and serves, and may be let in."""
        self._metadata_offset = metadata_offset
        self._beat()

    def beat_soon(self) -> None:
        """Tell the controller how far we are without waiting for the next beat: somebody waits for it."""
        if self._beating:
            # What is on its way says less than we know by now.
            self._again = True
        elif self._metadata_offset is not None:
            self._wait(0, self._beat)

    # --- leaving

    def leave(self, done: Callable[[], None]) -> None:
        """Ask to be let go; `done` comes once nothing is led here any more. It may never come."""
        self._leaving = done
        self._beat()

    # --- time

    def tick(self, now: Instant) -> None:
        """Do what is due."""
        if self._due is None:
            return
        if self._due > now:
            self._alarm.ring_by(self._due)
            return
        self._due = None
        self._then()

    def _wait(self, wait_ms: int, then: Callable[[], None]) -> None:
        self._due = Instant(self._clock.now() + wait_ms)
        self._then = then
        self._alarm.ring_by(self._due)

    def _beat(self) -> None:
        if self._beating or self._metadata_offset is None:
            return
        self._beating = True
        self._again = False
        request = BrokerHeartbeatRequest(
            broker_id=self._settings.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._metadata_offset(),
            want_shut_down=self._leaving is not None,
            offline_log_dirs=self.offline(),
        )
        # A beat that is not answered for so long is of no use any more; the next one says the same.
        timeout_ms = self._settings[keys.BROKER_SESSION_TIMEOUT_MS] // 2
        self._channel.ask(request, HEARTBEAT_VERSION, self._answered, timeout_ms)

    def _answered(self, answer: Message | Refused) -> None:
        self._beating = False
        wait_ms = self._settings[keys.BROKER_HEARTBEAT_INTERVAL_MS]
        if isinstance(answer, Refused):
            _log.warning("the controller does not answer heartbeats: %s", answer)
            wait_ms = _AGAIN_MS
        else:
            assert isinstance(answer, BrokerHeartbeatResponse), answer
            if answer.error_code:
                _log.warning("the controller refuses heartbeats: %s", ErrorCode(answer.error_code).name)
            elif answer.should_shut_down and self._leaving is not None:
                self._leaving()
                return
            elif answer.is_fenced or self._leaving is not None:
                wait_ms = _AGAIN_MS
        self._wait(0 if self._again else wait_ms, self._beat)
