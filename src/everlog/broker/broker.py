"""Broker: what the handlers share, and what the passing of time means for it."""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from everlog.broker import dispatch
from everlog.broker.broker_peers import BrokerPeers
from everlog.broker.cleaner import Cleaner
from everlog.broker.coordinators import Coordinators
from everlog.broker.directory_assignments import DirectoryAssignments
from everlog.broker.directory_health import DirectoryHealth
from everlog.broker.directory_moves import DirectoryMoves
from everlog.broker.exchange import Exchange
from everlog.broker.fetch_sessions import FetchSessions
from everlog.broker.group_commit import GroupCommit
from everlog.broker.healing import Healing
from everlog.broker.housekeeping import Housekeeping
from everlog.broker.membership import Membership, NodeWorld
from everlog.broker.parked import ParkingLot
from everlog.broker.producer_id_blocks import producer_id_blocks
from everlog.broker.repairs import Repairs
from everlog.broker.replicas import Replica, Replicas
from everlog.broker.replication import Replication
from everlog.broker.session import Session
from everlog.broker.slices import Slices
from everlog.broker.topic_settings import min_insync_replicas, topic_log_settings
from everlog.controller.producer_ids import ProducerIdPool
from everlog.log.directory import LogDirectory, newer_of
from everlog.log.partition import PartitionLog
from everlog.metadata.delta import Changes
from everlog.metadata.image import (
    ALL_BROKERS,
    BrokerImage,
    ClusterImage,
    ConfigResource,
    PartitionImage,
    ResourceType,
    broker_resource,
    stands_for_none,
)
from everlog.model.errors import CorruptDataError, StorageError
from everlog.model.ids import BrokerId, Instant
from everlog.model.settings import BrokerSettings
from everlog.model.settings import broker_table as keys
from everlog.model.topics import TopicPartition

_log = logging.getLogger(__name__)


class Broker:
    """One broker: its partitions, its waiting answers, and the cluster as it knows it."""

    def __init__(
        self,
        settings: BrokerSettings,
        member: Membership,
        directories: list[LogDirectory],
        world: NodeWorld,
    ) -> None:
        clock, random, alarm, aside = world.clock, world.random, world.alarm, world.aside
        self.static_settings = settings
        self.settings = settings
        """What the node was told, with what was changed while it runs."""
        self.on_settings_changed: Callable[[BrokerSettings], None] = lambda _settings: None
        """Told when `settings` has changed, so that whoever holds connections can follow."""
        self.node_id: BrokerId = settings.node_id
        self.cluster_id = member.cluster_id
        self.epoch = member.epoch
        """The broker epoch of this life: fetches and proposals of an earlier one count for nothing."""
        self.channel = member.channel
        """The way to the active controller."""
        self.desk = member.desk
        """The controller of the same node, if it has one."""
        self._others = BrokerPeers(member.peers, settings.inter_broker_listener)
        self._others.image_changed(member.image)
        self.peer = self._others.peer
        """Finds another broker by its number."""
        self.clock = clock
        self.random = random
        self.alarm = alarm
        self.dispatch: Callable[[int, Exchange, memoryview, int], None] = partial(dispatch.dispatch, self)
        """Hands one request to its handler; ProtocolError if it cannot be read or is not served."""
        self.advertised: Mapping[int, tuple[int, int]] = dispatch.ADVERTISED
        self.image: ClusterImage = member.image
        """The cluster as far as it is committed."""
        self.replicas = Replicas()
        self.lanes: dict[PartitionLog, None] = {}
        """Logs whose lanes were opened, the first one first (`handlers.produce_run`)."""
        # Requests that wait may take as much again as those that are being read.
        self.parked = ParkingLot(alarm, settings[keys.QUEUED_MAX_REQUEST_BYTES])
        self.settle = self.parked.settle
        """Answers the fetches that the requests just handled have woken."""
        self.group_commit = GroupCommit(aside, clock, alarm, self.settle)
        self.slices = Slices(clock, alarm)
        """Requests whose work takes long, and is done a little at a time."""
        self.fetch_sessions = FetchSessions(settings[keys.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS], random)
        self.fetch_max_bytes = settings[keys.FETCH_MAX_BYTES]
        self.fetch_max_wait_ms = settings[keys.CONNECTIONS_MAX_IDLE_MS]
        """No fetch waits for longer than a connection may be silent."""
        self.producer_ids = ProducerIdPool(producer_id_blocks(self))
        self.files = world.files
        self.directories = directories
        self.health = DirectoryHealth(
            world.files,
            aside,
            directories,
            member.directory_ids,
            member.unusable,
            settings.metadata_log_dir,
            self._directory_lost,
            lambda: self.image.brokers.keys() <= {self.node_id},
        )
        """Which directories can be used."""
        self.assignments = DirectoryAssignments(self)
        """Tells the controller which directory holds what."""
        self.repairs = Repairs(self)
        """Has replicas mended whose stored bytes have changed."""
        self.housekeeping = Housekeeping(self, aside)
        self.cleaner = Cleaner(self, aside)
        self.healing = Healing(self, aside)
        """Brings logs back that a failed sync has closed."""
        self.health.on_suspected = self.healing.look_soon
        self.moves = DirectoryMoves(self, aside)
        """Partitions on their way from one directory to another."""
        for name in {name for one in directories for name in one.partitions if len(directories) > 1}:
            self._settle_doubles(name)
        self.replication = Replication(self)
        """Which partitions lead and follow here, and what is committed."""
        for directory in directories:
            directory.before_checkpoint = self.replication.note_high_watermarks
        self._reconfigure([ALL_BROKERS])
        for topic in self.image.topics.values():
            self.replication.take_in(topic)
        self.replication.registered(self.epoch)
        for directory in directories:
            for partition in directory.partitions:
                self.assignments.note(partition, directory.path)
        self.coordinators = Coordinators(self)
        """The groups and transactions that this broker coordinates."""
        self.coordinators.start()
        self._go_on_moving()

    # --- requests

    def listener_endpoint(self, listener_name: str, broker: BrokerImage) -> tuple[str, int]:
        """Where clients of a listener reach a broker; no host and port -1 if it has no such listener."""
        endpoint = broker.endpoint(listener_name)
        return ("", -1) if endpoint is None else (endpoint.host, endpoint.port)

    def session_closed(self, session: Session) -> None:
        """A connection has gone."""

    # --- time

    def tick(self, now: Instant) -> None:
        """Do what is due: answer fetches that waited long enough, begin syncs, keep house."""
        self.parked.tick(now)
        self.group_commit.tick(now)
        self.slices.tick(now)
        self.replication.tick(now)
        self.assignments.tick(now)
        self.repairs.tick(now)
        self.moves.tick(now)
        self.coordinators.tick(now)
        self.housekeeping.tick(now)
        self.healing.tick(now)
        self.cleaner.tick(now)
        self.parked.settle()

    # --- partitions

    def checkpoint_start_offsets(self, done: Callable[[bool], None]) -> None:
        """Make the log start offsets durable, then call `done` with whether that worked."""
        self.housekeeping.checkpoint_start_offsets(done)

    def found_corruption(self, replica: Replica, error: CorruptDataError) -> None:
        """Tell the operator that stored bytes have changed, and mend it; they were not sent to anyone."""
        _log.error("%s has damaged records on disk, which are not served: %s", replica.name, error)
        self.repairs.note(replica)

    def open_log(self, replica: Replica) -> PartitionLog:
        """Find the partition's log, or make one where the fewest partitions are.

        StorageError if the disk does not let us, or it lies in a directory that has failed.
        """
        if replica.lost:
            raise StorageError(f"{replica.name} lies in a log directory that has failed")
        settings = topic_log_settings(self.settings, self.image, replica.name.topic)
        for directory in self.directories:
            if replica.name not in directory:
                continue
            found = directory.topic_id(replica.name)
            if found in (replica.topic_id, None):
                log = directory.get(replica.name, settings)
                assert log is not None, replica.name
                if found is None:
                    directory.set_topic_id(replica.name, replica.topic_id)
                self._lies_in(replica, directory)
                return log
            # A topic of that name was deleted and made anew while we were down.
            directory.delete(replica.name)
        chosen = self.moves.wishes.pop(replica.name, None) or min(self.directories, key=len)
        log = chosen.create(replica.name, replica.topic_id, settings)
        self._lies_in(replica, chosen)
        return log

    def _settle_doubles(self, name: TopicPartition) -> None:
        """Where a crash came as a partition had just moved, keep the log that was in use last."""
        holders = [directory for directory in self.directories if name in directory]
        topic = self.image.topics.get(name.topic)
        if len(holders) < 2 or topic is None:
            return
        settings = topic_log_settings(self.settings, self.image, name.topic)
        found: dict[PartitionLog, LogDirectory] = {}
        for directory in holders:
            try:
                log = directory.get(name, settings)
            except StorageError as error:
                _log.error(
                    "%s lies in several directories, and is not used in %s: %s", name, directory, error
                )
                directory.let_go(name)
                continue
            assert log is not None, name
            found[log] = directory
        kept = newer_of(found)
        for log, directory in found.items():
            if log is not kept:
                _log.warning("%s is in %s now, what is left in %s goes", name, kept.path, directory.path)
                directory.delete(name)

    def _go_on_moving(self) -> None:
        """Begin the moves anew that the last run has not ended."""
        for directory in self.directories:
            for name in directory.wanted_here:
                replica = self.replicas.get(name.topic, name.partition)
                if replica is not None and any(name in one for one in self.directories):
                    try:
                        self.moves.begin(replica, directory)
                    except StorageError as error:
                        _log.error("%s stays where it is: %s", name, error)
            directory.wanted_here.clear()

    def _lies_in(self, replica: Replica, directory: LogDirectory) -> None:
        replica.directory = directory.path
        self.assignments.note(replica.name, directory.path)

    def is_lost(self, name: TopicPartition, partition: PartitionImage) -> bool:
        """Whether this broker's replica lies in a directory that has failed, as far as can be known."""
        if not self.health.failed or any(name in directory for directory in self.directories):
            return False
        told = partition.directory_of(self.node_id)
        return not stands_for_none(told) and not self.health.is_online(told)

    def _directory_lost(self, directory: LogDirectory) -> None:
        """Go on without a directory: what lies in it neither leads nor follows until the next start."""
        self.directories.remove(directory)
        self.housekeeping.directory_lost(directory)
        self.moves.directory_lost(directory)
        for replica in list(self.replicas):
            if replica.name in directory:
                self.replication.lose(replica)
        directory.give_up()
        self.parked.settle()

    # --- metadata

    def image_changed(self, image: ClusterImage, changes: Changes) -> None:
        """Follow the cluster, as it is committed now."""
        self.image = image
        if changes.brokers:
            self._others.image_changed(image)
        if changes.configs:
            self._reconfigure(changes.configs)
        for topic in changes.deleted:
            self.give_up(self.replicas.remove_topic(topic.name))
        for name in changes.topics:
            self.replication.take_in(image.topics[name])
        self.replication.image_changed(image, changes)
        self.coordinators.image_changed(changes)
        self.parked.settle()

    def give_up(self, gone: Iterable[Replica]) -> None:
        """Let go of partitions that are not this broker's any more; their files go a little later."""
        gone = list(gone)
        for replica in gone:
            self.moves.forget(replica)
            self.replication.give_up(replica)
        self.parked.changed(gone)
        self.housekeeping.delete_partitions(gone)

    def _reconfigure(self, changed: Iterable[ConfigResource]) -> None:
        """Take over settings that were changed while running, for the broker and for topics."""
        image = self.image
        own = broker_resource(self.node_id)
        topics: Iterable[str] = [resource.name for resource in changed if resource.type == ResourceType.TOPIC]
        if ALL_BROKERS in changed or own in changed:
            self.settings = self.static_settings.with_dynamic(image.config(ALL_BROKERS), image.config(own))
            self.fetch_max_bytes = self.settings[keys.FETCH_MAX_BYTES]
            self.on_settings_changed(self.settings)
            topics = list(self.replicas.by_name)
        for topic in topics:
            settings = topic_log_settings(self.settings, image, topic)
            min_insync = min_insync_replicas(self.settings, image, topic)
            for replica in self.replicas.by_name.get(topic, {}).values():
                replica.min_insync = min_insync
                self.replication.min_insync_changed(replica)
                if replica.log is not None:
                    replica.log.reconfigure(settings)
