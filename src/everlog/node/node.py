"""Node: a controller and a broker on their log directories, given a world to run in."""

import logging
from collections.abc import Callable

from everlog.broker.broker import Broker
from everlog.broker.session import Outlet, Session
from everlog.broker.topic_settings import topic_log_settings
from everlog.controller import Controller
from everlog.controller.brokers import NOT_CLEAN, RegisterBroker, UnfenceBroker
from everlog.controller.metadata_log import (
    METADATA_LOG_SETTINGS,
    METADATA_PARTITION,
    ControllerWorld,
    MetadataLog,
    open_controller,
)
from everlog.log.directory import LogDirectory, make_dir_durably
from everlog.log.partition import World
from everlog.log.settings import LogSettings
from everlog.metadata.image import Endpoint
from everlog.model.errors import CorruptDataError, EverlogError, Refused, StorageError
from everlog.model.ids import METADATA_TOPIC_ID, Instant
from everlog.model.settings import BrokerSettings
from everlog.model.settings import broker_table as keys
from everlog.model.settings.listeners import Listener
from everlog.model.topics import TopicPartition
from everlog.node.identity import identify
from everlog.ports.alarm import Alarm
from everlog.ports.aside import Aside
from everlog.ports.clock import Clock
from everlog.ports.files import Files
from everlog.ports.random import Random
from everlog.raft.store import QuorumStore

_log = logging.getLogger(__name__)


class Node:
    """One node. Making it opens and recovers what is on disk; `start` takes the lead and registers."""

    def __init__(
        self,
        settings: BrokerSettings,
        files: Files,
        clock: Clock,
        random: Random,
        aside: Aside,
        alarm: Alarm,
    ) -> None:
        self._settings = settings
        self._files = files
        self._random = random
        paths = list(dict.fromkeys((*settings.log_dirs, settings.metadata_log_dir)))
        for path in paths:
            make_dir_durably(files, path)
        self.cluster_id, self._directory_ids = identify(
            files, paths, settings.node_id, random, settings[keys.CLUSTER_ID]
        )
        world = World(files, clock, random)
        self._all_directories = {path: LogDirectory(world, path) for path in paths}
        for directory in self._all_directories.values():
            directory.load()
        self._directories = [self._all_directories[path] for path in settings.log_dirs]
        self.controller = self._open_controller(clock, aside)
        self._recover()
        self.broker = Broker(
            settings, self.cluster_id, self.controller, files, self._directories, clock, random, aside, alarm
        )
        self._sessions_opened = 0

    def _settings_for(self, partition: TopicPartition) -> LogSettings:
        if partition == METADATA_PARTITION:
            return METADATA_LOG_SETTINGS
        return topic_log_settings(self._settings, self.controller.image, partition.topic)

    def _open_controller(self, clock: Clock, aside: Aside) -> Controller:
        home = self._all_directories[self._settings.metadata_log_dir]
        log = home.get(METADATA_PARTITION, METADATA_LOG_SETTINGS) or home.create(
            METADATA_PARTITION, METADATA_TOPIC_ID, METADATA_LOG_SETTINGS
        )
        metadata = MetadataLog(log, lambda: home.reopen(METADATA_PARTITION), aside, clock)
        store = QuorumStore(self._files, log.path)
        world = ControllerWorld(aside, clock, self._random)
        try:
            return open_controller(self._settings, self._directory_ids[home.path], metadata, store, world)
        except CorruptDataError as error:
            raise StorageError(f"the metadata log in {home.path} cannot be read: {error}") from error

    def _recover(self) -> None:
        """Bring every log to a state that can be served, after a stop that was not clean."""
        for directory in self._directories:
            for log in directory.recover(self._settings_for):
                report = log.report
                if report.cut_bytes:
                    level = logging.ERROR if report.below_recovery_point else logging.WARNING
                    _log.log(
                        level,
                        "%s: %d bytes behind offset %d were cut off: %s",
                        log.partition,
                        report.cut_bytes,
                        log.end_offset,
                        report.problem,
                    )
            for problem in directory.problems:
                _log.error("%s", problem)
            directory.problems.clear()

    def start(self, listeners: list[Listener], done: Callable[[EverlogError | None], None]) -> None:
        """Take the lead, register the broker with where it listens, then call `done`: it can serve."""
        node_id = self._settings.node_id
        clean = all(directory.clean for directory in self._all_directories.values())
        register = RegisterBroker(
            node_id,
            self._random.uuid(),
            tuple(Endpoint(one.name, one.host, one.port, one.protocol) for one in listeners),
            tuple(self._directory_ids[path] for path in self._settings.log_dirs),
            self._settings[keys.BROKER_RACK],
            self._directories[0].last_broker_epoch if clean else NOT_CLEAN,
        )

        def leads(reply: Refused | StorageError | None) -> None:
            if reply is not None:
                done(reply)
            else:
                self.controller.submit(register, registered)

        def registered(reply: int | Refused | StorageError) -> None:
            if isinstance(reply, int):
                self.controller.submit(UnfenceBroker(node_id, reply), unfenced)
            else:
                done(reply)

        def unfenced(reply: Refused | StorageError | None) -> None:
            if reply is None:
                self.broker.producer_ids.reserve()
            done(reply)

        self.controller.start(leads)

    def open_session(self, outlet: Outlet, listener_name: str, peer_host: str) -> Session:
        """Take on a connection."""
        max_waiting = self.broker.settings[keys.CONNECTIONS_MAX_IN_FLIGHT_REQUESTS]
        session = Session(self.broker, outlet, listener_name, peer_host, max_waiting)
        self._sessions_opened += 1
        session.number = self._sessions_opened
        return session

    def tick(self, now: Instant) -> None:
        """Do what is due."""
        self.broker.tick(now)

    def close(self) -> None:
        """Make everything durable and note that the stop was clean. It blocks; nothing is served any more."""
        known = self.controller.image.brokers.get(self._settings.node_id)
        epoch = NOT_CLEAN if known is None else known.epoch
        for directory in self._all_directories.values():
            directory.close(broker_epoch=epoch)
            for problem in directory.problems:
                _log.error("%s", problem)
