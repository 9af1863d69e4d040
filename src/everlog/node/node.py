"""Node: one process of a cluster: a controller, a broker, or both, given a world to run in."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from everlog.broker.broker import Broker
from everlog.broker.controller_channel import ControllerChannel
from everlog.broker.desk.desk import Desk
from everlog.broker.lifecycle import Lifecycle
from everlog.broker.membership import Membership, NodeWorld
from everlog.broker.session import Outlet, Session
from everlog.broker.topic_settings import topic_log_settings
from everlog.controller import Controller
from everlog.controller.brokers import NOT_CLEAN
from everlog.controller.keeper import ImageKeeper
from everlog.controller.metadata_log import METADATA_LOG_SETTINGS, METADATA_PARTITION
from everlog.controller.replay import replay
from everlog.controller.snapshotter import Snapshotter, load_image
from everlog.log.directory import LogDirectory, make_dir_durably
from everlog.log.directory_probe import probe_directory
from everlog.log.partition import World
from everlog.log.settings import LogSettings
from everlog.metadata.delta import Changes
from everlog.metadata.image import EMPTY_IMAGE, ClusterImage
from everlog.model.errors import CorruptDataError, EverlogError, Refused, StorageError
from everlog.model.ids import Instant, Offset
from everlog.model.settings import BrokerSettings
from everlog.model.settings import broker_table as keys
from everlog.model.settings.listeners import Listener
from everlog.model.topics import TopicPartition
from everlog.node.identity import identify
from everlog.node.quorum import join_quorum
from everlog.peers.peers import Peers
from everlog.ports.alarm import Alarm
from everlog.ports.aside import Aside
from everlog.ports.clock import Clock
from everlog.ports.files import Files
from everlog.ports.links import NO_LINKS, Links
from everlog.ports.random import Random

if TYPE_CHECKING:
    from everlog.broker.controller_errands import ControllerErrands

_log = logging.getLogger(__name__)

_NO_LEADER_MS = 3_000
"""How long a broker that leaves goes without a controller to hand over to before it just goes."""

Started = Callable[[EverlogError | None], None]


class Node:
    """One node. Making it opens and recovers what is on disk; `start` joins the cluster.

    The quorum is served as soon as it is made, clients once `start` has said that it is done.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        files: Files,
        clock: Clock,
        random: Random,
        aside: Aside,
        alarm: Alarm,
        links: Links = NO_LINKS,
    ) -> None:
        self.settings = settings
        world = self._world = NodeWorld(files, clock, random, aside, alarm, links)
        paths = list(dict.fromkeys((*settings.log_dirs, settings.metadata_log_dir)))
        usable = [path for path in paths if self._can_use(path)]
        self._unusable = tuple(path for path in paths if path not in usable)
        """Log directories that have failed; the node does without."""
        self.cluster_id, self._directory_ids = identify(
            world.files, usable, settings.node_id, world.random, settings[keys.CLUSTER_ID]
        )
        log_world = World(world.files, world.clock, world.random)
        self._all_directories = {path: LogDirectory(log_world, path) for path in usable}
        for directory in self._all_directories.values():
            directory.load()
        self._directories = [self._all_directories[path] for path in settings.log_dirs if path in usable]
        if settings.is_broker and not self._directories:
            raise StorageError(f"none of the log directories can be used: {', '.join(settings.log_dirs)}")
        self._clean = all(directory.clean for directory in self._all_directories.values())
        self.peers = Peers(world.links, world.clock, world.alarm, f"node-{settings.node_id}")
        home = self._all_directories[settings.metadata_log_dir]
        self.quorum = join_quorum(
            settings, self.cluster_id, home, self._directory_ids[home.path], self.peers, world
        )
        self.keeper = ImageKeeper(self.quorum)
        self.controller: Controller | None = None
        self.desk: Desk | None = None
        if settings.is_controller:
            self.controller = Controller(self.quorum, self.keeper, settings, world.random)
            self.desk = Desk(
                settings,
                self.cluster_id,
                self.quorum,
                self.controller,
                self.peers,
                world.clock,
                world.alarm,
            )
        self.channel = ControllerChannel(self.quorum, self.desk, self.peers, world.clock, world.alarm)
        self._recover()
        self.lifecycle = Lifecycle(
            settings,
            self.cluster_id,
            world.random.uuid(),
            [self._directory_ids[directory.path] for directory in self._directories],
            self._directories[0].last_broker_epoch if self._clean else NOT_CLEAN,
            self.channel,
            world.clock,
            world.alarm,
        )
        self._errands = self._controller_errands()
        self._broker: Broker | None = None
        self.on_broker: Callable[[Broker], None] = lambda _broker: None
        """Told when the broker is made from what is on the disk, before anything is written."""
        self.on_settings_changed: Callable[[BrokerSettings], None] = lambda _settings: None
        """Told when what was set for the broker has changed while it runs."""
        self._started: Started | None = None
        self._sessions_opened = 0
        self._leaving_since: Instant | None = None
        self._left: Callable[[], None] = lambda: None
        self.quorum.follow(self)
        self.keeper.subscribe(self._image_changed)
        snapshotter = Snapshotter(
            self.quorum,
            world.clock,
            settings[keys.METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS],
            settings[keys.METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS],
        )
        self.keeper.subscribe(lambda image, _changes: snapshotter.published(image))

        self.on_failed: Callable[[StorageError], None] = lambda _error: None
        """Told when the node cannot go on, and should be ended: its disks have failed it."""

    def _controller_errands(self) -> "ControllerErrands | None":
        """What a controller tells the others; None for a node that is a cluster of its own."""
        settings, world = self.settings, self._world
        if not settings.controller_listeners:
            return None
        # A node alone is to serve a fraction of a second after its start, and does without.
        from everlog.broker.controller_errands import ControllerErrands

        return ControllerErrands(
            self.quorum,
            self.channel,
            self.cluster_id,
            world.random.uuid(),
            settings.controller_listeners,
            world.clock,
            world.alarm,
        )

    def _can_use(self, path: str) -> bool:
        """Whether a directory can be used; StorageError where there is no doing without."""
        files = self._world.files
        others = len(set(self.settings.log_dirs)) > 1 and path != self.settings.metadata_log_dir
        try:
            make_dir_durably(files, path)
            if others:
                probe_directory(files, path)
        except OSError as error:
            if not others:
                raise StorageError(f"the log directory {path} cannot be used: {error}") from error
            _log.error("the log directory %s is out of use until the next start: %s", path, error)
            return False
        return True

    @property
    def has_broker(self) -> bool:
        """Whether the broker is made."""
        return self._broker is not None

    @property
    def broker(self) -> Broker:
        """The broker, which is made once this node has taken in its own registration."""
        assert self._broker is not None, "this node has no broker, or not yet"
        return self._broker

    def _recover(self) -> None:
        """Bring every log to a state that can be served, after a stop that was not clean."""
        image = EMPTY_IMAGE if self._clean else self._image_on_disk()

        def settings_for(partition: TopicPartition) -> LogSettings:
            if partition == METADATA_PARTITION:
                return METADATA_LOG_SETTINGS
            return topic_log_settings(self.settings, image, partition.topic)

        for directory in self._directories:
            for log in directory.recover(settings_for):
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

    def _image_on_disk(self) -> ClusterImage:
        """The cluster as this node's log has it, committed or not: good enough to open logs by."""
        quorum = self.quorum
        try:
            image = load_image(quorum) if quorum.start_offset else self.keeper.image
            return replay(quorum.batches(image.end_offset, quorum.end_offset), image)[0]
        except CorruptDataError as error:
            raise StorageError(
                f"the metadata log in {self.settings.metadata_log_dir} cannot be read: {error}"
            ) from error

    # --- joining the cluster

    def start(self, listeners: list[Listener], done: Started) -> None:
        """Join the quorum and register the broker with where it listens, then call `done`: it can serve."""
        self._started = done
        try:
            self.quorum.start()
        except StorageError as error:
            self._end_start(error)
            return
        if self.settings.is_broker:
            self.lifecycle.register(listeners, self._registered)
        else:
            self._end_start(None)

    def _registered(self, refusal: Refused | None) -> None:
        if refusal is not None:
            self._end_start(refusal)
        else:
            self._go_on(self.keeper.image)

    def _go_on(self, image: ClusterImage) -> None:
        """Take the next step of the start, if the cluster lets us."""
        me = image.brokers.get(self.settings.node_id)
        if me is None or me.epoch != self.lifecycle.epoch:
            return  # Our registration has not come back to us yet.
        if self._broker is None:
            member = Membership(
                self.cluster_id,
                self.lifecycle.epoch,
                image,
                self.channel,
                self.desk,
                self.peers,
                self._directory_ids,
                self._unusable,
            )
            self._broker = Broker(self.settings, member, self._directories, self._world)
            self._broker.on_settings_changed = lambda changed: self.on_settings_changed(changed)
            health = self._broker.health
            health.on_failed = lambda error: self.on_failed(error)
            health.on_lost = self.lifecycle.beat_soon
            self.lifecycle.offline = lambda: health.offline
            self.on_settings_changed(self._broker.settings)
            self.on_broker(self._broker)
            self.lifecycle.beat(lambda: self.keeper.image.end_offset)
        elif not me.fenced and self._started is not None:
            self._broker.producer_ids.reserve()
            self._end_start(None)

    def _end_start(self, error: EverlogError | None) -> None:
        done, self._started = self._started, None
        if done is not None:
            done(error)

    def _image_changed(self, image: ClusterImage, changes: Changes) -> None:
        if self.desk is not None and changes.brokers:
            self.desk.brokers_changed()
        if self._broker is not None:
            self._broker.image_changed(image, changes)
            if any(broker.in_controlled_shutdown for broker in image.brokers.values()):
                # It goes when all others know that it leads nothing any more.
                self.lifecycle.beat_soon()
        if self._started is not None and self.lifecycle.epoch >= 0:
            self._go_on(image)

    # --- what the quorum tells

    def committed(self, high_watermark: Offset) -> None:
        """All below is committed."""
        try:
            if self.keeper.image.end_offset < self.quorum.start_offset:
                self.keeper.load(load_image(self.quorum))
            self.keeper.committed(high_watermark)
        except CorruptDataError as error:
            problem = StorageError(
                f"the metadata log in {self.settings.metadata_log_dir} cannot be read: {error}"
            )
            if self._started is None:
                raise problem from error
            self._end_start(problem)
            return
        if self.controller is not None:
            self.controller.committed(high_watermark)

    def activated(self, epoch: int) -> None:
        """This node leads the quorum."""
        assert self.controller is not None, epoch
        self.controller.activated(epoch)
        # What this node wants of the controller has waited for one.
        self.channel.tick(self._world.clock.now())

    def stood_down(self) -> None:
        """It leads no more."""
        if self.controller is not None:
            self.controller.stood_down()

    # --- serving

    def open_session(self, outlet: Outlet, listener_name: str, peer_host: str) -> Session:
        """Take on a connection."""
        if listener_name in self.settings.controller_listener_names:
            assert self.desk is not None, listener_name
            most = self.settings[keys.CONNECTIONS_MAX_IN_FLIGHT_REQUESTS]
            session = Session(self.desk, outlet, listener_name, peer_host, most)
        else:
            broker = self.broker
            most = broker.settings[keys.CONNECTIONS_MAX_IN_FLIGHT_REQUESTS]
            session = Session(broker, outlet, listener_name, peer_host, most, broker)
        self._sessions_opened += 1
        session.number = self._sessions_opened
        return session

    def settle(self) -> None:
        """Answer the fetches that the requests just handled have woken."""
        if self._broker is not None:
            self._broker.settle()

    def tick(self, now: Instant) -> None:
        """Do what is due."""
        self.quorum.tick(now)
        self.peers.tick(now)
        self.channel.tick(now)
        if self.desk is not None:
            self.desk.tick(now)
        if self._errands is not None:
            self._errands.tick(now)
        self.lifecycle.tick(now)
        if self._broker is not None:
            self._broker.tick(now)
        if self._leaving_since is not None:
            self._look_for_controller(now)

    # --- leaving

    def leave(self, done: Callable[[], None]) -> None:
        """Hand over what is led here, as far as there is anybody to take it, then call `done`."""

        def left() -> None:
            self._leaving_since = None
            self.quorum.resign()
            done()

        image = self.keeper.image
        others = [broker for broker in image.brokers.values() if broker.id != self.settings.node_id]
        if self._broker is None or not any(broker.active for broker in others):
            left()
            return
        self._left = left
        self._leaving_since = self._world.clock.now()
        self._world.alarm.ring_by(Instant(self._leaving_since + _NO_LEADER_MS))
        self.lifecycle.leave(left)

    def _look_for_controller(self, now: Instant) -> None:
        """Go without handing over where there is no controller that could arrange it."""
        assert self._leaving_since is not None
        if self.quorum.leader is not None:
            self._leaving_since = now
        if now - self._leaving_since >= _NO_LEADER_MS:
            self._left()
        else:
            self._world.alarm.ring_by(Instant(self._leaving_since + _NO_LEADER_MS))

    def close(self) -> None:
        """Make everything durable and note that the stop was clean. It blocks; nothing is served any more."""
        self.peers.close()
        if self._broker is not None:
            self._broker.moves.stop()
        for directory in self._all_directories.values():
            directory.close(self._world.aside, broker_epoch=self.lifecycle.epoch)
            for problem in directory.problems:
                _log.error("%s", problem)
