"""The settings of a broker, with Kafka's names and defaults.

A row marked `our_own` is not Kafka's, or differs from it for safety; its meaning says how. Rows that
Kafka's own server.properties has and that change nothing here are in `WITHOUT_EFFECT`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from everlog.model.settings.kinds import (
    INT_MAX,
    LONG_MAX,
    Kind,
    Setting,
    Update,
    changing,
    counts_of_addresses,
    flag,
    fraction,
    needing,
    our_own,
    whole,
    whole_or_unset,
    word,
    word_or_unset,
    words,
)
from everlog.model.settings.topic_table import DAY_MS, MIB, MINUTE_MS, TOPIC_SETTINGS, WEEK_MS

T = TypeVar("T")

INT = Kind.INT
SHORT = Kind.SHORT
DOUBLE_MAX = 1.7976931348623157e308

_rows: dict[str, Setting[Any]] = {}


def _row(setting: Setting[T]) -> Setting[T]:
    assert setting.key not in _rows, setting.key
    _rows[setting.key] = setting
    return setting


def _live(setting: Setting[T]) -> Setting[T]:
    return _row(changing(setting, Update.CLUSTER_WIDE))


# Who this process is.
NODE_ID = _row(
    whole_or_unset("node.id", "The number of this node in its cluster; required.", 0, INT_MAX, kind=INT)
)
PROCESS_ROLES = _row(
    words(
        "process.roles",
        (),
        "What this process is: broker, controller or both; required.",
        ("broker", "controller"),
        empty=False,
    )
)
CLUSTER_ID = _row(
    our_own(
        word_or_unset(
            "cluster.id",
            "The cluster that this node belongs to; needed where several nodes make one. Kafka has it from "
            "formatting the directories.",
        )
    )
)
BROKER_RACK = _row(word_or_unset("broker.rack", "Where the broker stands, so that replicas can stand apart."))
CONTROLLER_QUORUM_VOTERS = _row(
    words("controller.quorum.voters", (), "The controllers that vote, as id@host:port.")
)
CONTROLLER_QUORUM_BOOTSTRAP_SERVERS = _row(
    words("controller.quorum.bootstrap.servers", (), "Controllers to ask for the quorum, as host:port.")
)

CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS = _row(
    whole(
        "controller.quorum.election.timeout.ms",
        1_000,
        "How long an election may take before it is held again.",
        1,
        kind=INT,
    )
)
CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS = _row(
    whole(
        "controller.quorum.election.backoff.max.ms",
        1_000,
        "The longest wait before an election is held again.",
        1,
        kind=INT,
    )
)
CONTROLLER_QUORUM_FETCH_TIMEOUT_MS = _row(
    whole(
        "controller.quorum.fetch.timeout.ms",
        2_000,
        "How long voters and their leader go without hearing of each other before they act on it.",
        1,
        kind=INT,
    )
)
CONTROLLER_QUORUM_RETRY_BACKOFF_MS = _row(
    whole(
        "controller.quorum.retry.backoff.ms",
        20,
        "How long to wait before a request between controllers is sent again.",
        1,
        kind=INT,
    )
)
METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS = _row(
    whole(
        "metadata.log.max.record.bytes.between.snapshots",
        20 * 1024 * 1024,
        "How much of the metadata log is written before the next snapshot of it is taken.",
        1,
    )
)
METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS = _row(
    whole(
        "metadata.log.max.snapshot.interval.ms",
        3_600_000,
        "How long until a snapshot is taken of a metadata log that something was written to; 0 is never.",
        0,
    )
)
BROKER_HEARTBEAT_INTERVAL_MS = _row(
    whole(
        "broker.heartbeat.interval.ms",
        2_000,
        "How often brokers tell the controller that they live.",
        1,
        kind=INT,
    )
)
BROKER_SESSION_TIMEOUT_MS = _row(
    whole(
        "broker.session.timeout.ms",
        9_000,
        "How long the controller goes without hearing of a broker before others lead what it led.",
        1,
        kind=INT,
    )
)
AUTO_LEADER_REBALANCE_ENABLE = _row(
    flag(
        "auto.leader.rebalance.enable",
        True,
        "Whether the first of a partition's replicas gets its lead back once it is in sync again.",
    )
)
LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS = _row(
    whole(
        "leader.imbalance.check.interval.seconds",
        300,
        "How often the controller looks whether leads should go back.",
        1,
    )
)
LEADER_IMBALANCE_PER_BROKER_PERCENTAGE = _row(
    whole(
        "leader.imbalance.per.broker.percentage",
        10,
        "How many of a hundred leads that should be a broker's may be elsewhere before they go back.",
        0,
        kind=INT,
    )
)
INITIAL_BROKER_REGISTRATION_TIMEOUT_MS = _row(
    whole(
        "initial.broker.registration.timeout.ms",
        60_000,
        "How long a starting broker tries to register before it gives up.",
        1,
        kind=INT,
    )
)

# Where it listens.
LISTENERS = _row(
    our_own(
        words(
            "listeners",
            ("PLAINTEXT://127.0.0.1:9092",),
            "Where the node listens, as NAME://host:port; unlike Kafka's, the default is this machine only.",
            empty=False,
        )
    )
)
ADVERTISED_LISTENERS = _row(
    words(
        "advertised.listeners",
        (),
        "Where clients are told to connect, as NAME://host:port; unset: listeners.",
    )
)
LISTENER_SECURITY_PROTOCOL_MAP = _row(
    words(
        "listener.security.protocol.map",
        ("PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL"),
        "Which security protocol each listener name stands for, as NAME:PROTOCOL.",
    )
)
INTER_BROKER_LISTENER_NAME = _row(
    word_or_unset("inter.broker.listener.name", "The listener that other brokers use; unset: PLAINTEXT.")
)
CONTROLLER_LISTENER_NAMES = _row(
    words("controller.listener.names", (), "The names among the listeners that serve the controller.")
)
ALLOW_INSECURE_LISTENER = _row(
    our_own(
        flag(
            "allow.insecure.listener",
            False,
            "Whether other machines may reach a listener without encryption. Kafka does not ask.",
        )
    )
)
SOCKET_LISTEN_BACKLOG_SIZE = _row(
    whole("socket.listen.backlog.size", 50, "The connections that may wait to be accepted.", 1, kind=INT)
)
SOCKET_SEND_BUFFER_BYTES = _row(
    our_own(
        whole(
            "socket.send.buffer.bytes",
            -1,
            "The size of a socket's send buffer; -1, unlike Kafka's 102400, leaves it to the system.",
            -1,
            kind=INT,
        )
    )
)
SOCKET_RECEIVE_BUFFER_BYTES = _row(
    our_own(
        whole(
            "socket.receive.buffer.bytes",
            -1,
            "The size of a socket's receive buffer; -1, unlike Kafka's 102400, leaves it to the system.",
            -1,
            kind=INT,
        )
    )
)

# What one peer, and all together, may take.
SOCKET_REQUEST_MAX_BYTES = _row(
    whole("socket.request.max.bytes", 100 * MIB, "The largest request that is read.", 1, kind=INT)
)
QUEUED_MAX_REQUEST_BYTES = _row(
    our_own(
        whole(
            "queued.max.request.bytes",
            256 * MIB,
            "The bytes of all requests under way, beyond which no more are read; Kafka has no limit.",
            MIB,
        )
    )
)
CONNECTIONS_MAX_IDLE_MS = _row(
    whole(
        "connections.max.idle.ms",
        10 * MINUTE_MS,
        "How long a connection may be silent before it is closed.",
        1,
    )
)
CONNECTIONS_FIRST_BYTE_MS = _row(
    our_own(
        whole(
            "connections.first.byte.ms",
            30_000,
            "How long a new connection may say nothing before it is closed; in Kafka as long as an old one.",
            1,
        )
    )
)
REQUEST_READ_TIMEOUT_MS = _row(
    our_own(
        whole(
            "request.read.timeout.ms",
            10_000,
            "How long the first bytes of a request may take once it has begun; Kafka has no such limit.",
            1,
        )
    )
)
REQUEST_READ_MIN_BYTES_PER_SECOND = _row(
    our_own(
        whole(
            "request.read.min.bytes.per.second",
            1024,
            "The rate that the rest of a request must keep, or its connection is closed. Not in Kafka.",
            0,
            kind=INT,
        )
    )
)
CONNECTIONS_MAX_UNREAD_BYTES = _row(
    our_own(
        whole(
            "connections.max.unread.bytes",
            8 * MIB,
            "The bytes of answers that a peer may leave unread before we stop reading from it. Not in Kafka.",
            1,
            kind=INT,
        )
    )
)
CONNECTIONS_MAX_UNREAD_MS = _row(
    our_own(
        whole(
            "connections.max.unread.ms",
            MINUTE_MS,
            "How long a peer may leave its answers unread before its connection is closed. Not in Kafka.",
            1,
            kind=INT,
        )
    )
)
CONNECTIONS_MAX_IN_FLIGHT_REQUESTS = _row(
    our_own(
        whole(
            "connections.max.in.flight.requests",
            64,
            "The requests of one connection served before the next is read. Kafka's is 1, fixed.",
            1,
            kind=INT,
        )
    )
)
MAX_CONNECTIONS = _live(
    our_own(
        whole(
            "max.connections",
            10_000,
            "The connections that the node accepts in all; Kafka has no limit.",
            1,
            kind=INT,
        )
    )
)
MAX_CONNECTIONS_PER_IP = _live(
    our_own(
        whole(
            "max.connections.per.ip",
            1_024,
            "The connections that one address may have; Kafka has no limit.",
            0,
            kind=INT,
        )
    )
)
MAX_CONNECTIONS_PER_IP_OVERRIDES = _live(
    our_own(
        counts_of_addresses(
            "max.connections.per.ip.overrides",
            "Limits of single addresses, as address:count with commas; Kafka takes host names too.",
        )
    )
)
FETCH_MAX_BYTES = _row(
    whole(
        "fetch.max.bytes",
        55 * MIB,
        "The most bytes that one fetch answers with, a first batch apart.",
        1024,
        kind=INT,
    )
)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS = _row(
    whole(
        "max.incremental.fetch.session.cache.slots",
        1_000,
        "The fetch sessions that the broker keeps.",
        0,
        kind=INT,
    )
)
MAX_REQUEST_PARTITION_SIZE_LIMIT = _row(
    whole(
        "max.request.partition.size.limit",
        2_000,
        "The partitions that one DescribeTopicPartitions answers with.",
        1,
        kind=INT,
    )
)
MAX_OPEN_FILES = _row(
    our_own(
        whole(
            "max.open.files",
            1_024,
            "The file descriptors that logs hold at once; others are opened when needed. Not in Kafka.",
            16,
            kind=INT,
        )
    )
)
MAX_PARTITIONS = _row(
    our_own(
        whole(
            "max.partitions",
            20_000,
            "The partitions that the cluster may have in all. Not in Kafka.",
            1,
            kind=INT,
        )
    )
)
DISK_RESERVE_BYTES = _row(
    our_own(
        whole(
            "disk.reserve.bytes",
            64 * MIB,
            "The room left free on disk: below it, produce is refused and reads go on. Not in Kafka.",
            0,
        )
    )
)
DECOMPRESSED_MAX_BYTES = _row(
    our_own(
        whole(
            "decompressed.max.bytes",
            100 * MIB,
            "The most that a batch may unpack to; above 16 MiB, 32 times its size at most. Not in Kafka.",
            1,
            kind=INT,
        )
    )
)

# Topics.
NUM_PARTITIONS = _row(
    whole("num.partitions", 1, "The partitions of a topic whose creator does not say.", 1, kind=INT)
)
DEFAULT_REPLICATION_FACTOR = _row(
    whole("default.replication.factor", 1, "The replicas of a topic whose creator does not say.", 1, kind=INT)
)
AUTO_CREATE_TOPICS_ENABLE = _row(
    flag("auto.create.topics.enable", True, "Whether asking for a topic that is not there creates it.")
)
DELETE_TOPIC_ENABLE = _row(flag("delete.topic.enable", True, "Whether topics can be deleted."))

# The log.
LOG_DIR = _row(
    our_own(
        words(
            "log.dir",
            ("/tmp/everlog-logs",),
            "The directory of the logs; log.dirs comes before it. Kafka's default is /tmp/kafka-logs.",
            empty=False,
        )
    )
)
LOG_DIRS = _row(words("log.dirs", (), "The directories of the logs; unset: log.dir."))
METADATA_LOG_DIR = _row(
    word_or_unset("metadata.log.dir", "The directory of the metadata log; unset: the first of log.dirs.")
)
LOG_RETENTION_CHECK_INTERVAL_MS = _row(
    whole(
        "log.retention.check.interval.ms", 5 * MINUTE_MS, "How often logs are looked at for what may go.", 1
    )
)
LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS = _row(
    whole(
        "log.flush.offset.checkpoint.interval.ms",
        MINUTE_MS,
        "How often the offsets up to which logs are on disk are written down.",
        0,
        kind=INT,
    )
)
LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS = _row(
    whole(
        "log.flush.start.offset.checkpoint.interval.ms",
        MINUTE_MS,
        "How often the start offsets of logs are written down.",
        0,
        kind=INT,
    )
)
LOG_INITIAL_TASK_DELAY_MS = _row(
    whole(
        "log.initial.task.delay.ms",
        30_000,
        "How long after the start the work on logs in the background begins.",
        0,
    )
)
LOG_CLEANER_ENABLE = _row(
    flag("log.cleaner.enable", True, "Whether topics with cleanup.policy=compact are compacted.")
)
LOG_CLEANER_THREADS = _live(
    whole("log.cleaner.threads", 1, "How many logs are compacted at the same time.", 0, kind=INT)
)
LOG_CLEANER_DEDUPE_BUFFER_SIZE = _live(
    whole(
        "log.cleaner.dedupe.buffer.size",
        128 * MIB,
        "The memory for the keys of the logs under compaction, in bytes; a key takes 24.",
        24,
    )
)
LOG_CLEANER_IO_BUFFER_LOAD_FACTOR = _live(
    fraction(
        "log.cleaner.io.buffer.load.factor",
        0.9,
        "How full the memory for keys may get; more keys a round, and more time for each.",
        0.01,
        0.99,
    )
)
LOG_CLEANER_IO_BUFFER_SIZE = _live(
    whole(
        "log.cleaner.io.buffer.size",
        512 * 1024,
        "The memory for the bytes that compaction reads and writes; a larger batch is read whole.",
        0,
        kind=INT,
    )
)
LOG_CLEANER_IO_MAX_BYTES_PER_SECOND = _live(
    fraction(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE_MAX,
        "How many bytes compaction reads and writes in a second at the most.",
        1,
        DOUBLE_MAX,
    )
)
LOG_CLEANER_BACKOFF_MS = _live(
    whole("log.cleaner.backoff.ms", 15_000, "How often logs are looked at for what to compact.", 0)
)
PRODUCER_ID_EXPIRATION_MS = _live(
    whole(
        "producer.id.expiration.ms",
        DAY_MS,
        "How long a partition remembers a producer that is silent.",
        1,
        kind=INT,
    )
)
PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS = _row(
    whole(
        "producer.id.expiration.check.interval.ms",
        10 * MINUTE_MS,
        "How often partitions forget the producers that are due.",
        1,
        kind=INT,
    )
)

# Replication.
REPLICA_LAG_TIME_MAX_MS = _row(
    whole("replica.lag.time.max.ms", 30_000, "How long a follower may lag before it is out of sync.")
)
REPLICA_SELECTOR_CLASS = _row(
    word_or_unset(
        "replica.selector.class",
        "Who consumers read from: org.apache.kafka.common.replica.RackAwareReplicaSelector sends them to "
        "replicas in their racks; unset, the leader.",
    )
)
LEADER_REPLICATION_THROTTLED_RATE = _row(
    changing(
        whole(
            "leader.replication.throttled.rate",
            LONG_MAX,
            "Bytes a second that this broker sends to replicas which catch up and are named as throttled.",
            0,
        ),
        Update.PER_BROKER,
    )
)
FOLLOWER_REPLICATION_THROTTLED_RATE = _row(
    changing(
        whole(
            "follower.replication.throttled.rate",
            LONG_MAX,
            "Bytes a second that this broker takes for replicas which catch up and are named as throttled.",
            0,
        ),
        Update.PER_BROKER,
    )
)
REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND = _row(
    changing(
        whole(
            "replica.alter.log.dirs.io.max.bytes.per.second",
            LONG_MAX,
            "Bytes a second that this broker copies from one of its log directories to another.",
            0,
        ),
        Update.PER_BROKER,
    )
)
REPLICA_FETCH_MAX_BYTES = _row(
    whole(
        "replica.fetch.max.bytes",
        1 << 20,
        "Bytes of one partition that a follower fetches at once; a larger batch comes all the same.",
        0,
        kind=INT,
    )
)
REPLICA_FETCH_RESPONSE_MAX_BYTES = _row(
    whole("replica.fetch.response.max.bytes", 10 << 20, "Bytes that a follower fetches at once.", 0, kind=INT)
)
REPLICA_FETCH_MIN_BYTES = _row(
    whole("replica.fetch.min.bytes", 1, "Bytes that a follower's fetch waits for.", kind=INT)
)
REPLICA_FETCH_WAIT_MAX_MS = _row(
    whole("replica.fetch.wait.max.ms", 500, "How long a follower's fetch waits for records.", kind=INT)
)
REPLICA_SOCKET_TIMEOUT_MS = _row(
    whole(
        "replica.socket.timeout.ms", 30_000, "How long a follower waits for its leader to answer.", kind=INT
    )
)
REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS = _row(
    whole(
        "replica.high.watermark.checkpoint.interval.ms", 5_000, "How often high watermarks are written down."
    )
)

# Groups and transactions: what Kafka's own server.properties names, and their topics.
OFFSETS_TOPIC_NUM_PARTITIONS = _row(
    whole("offsets.topic.num.partitions", 50, "The partitions of __consumer_offsets.", 1, kind=INT)
)
OFFSETS_TOPIC_REPLICATION_FACTOR = _row(
    whole("offsets.topic.replication.factor", 3, "The replicas of __consumer_offsets.", 1, kind=SHORT)
)
OFFSETS_TOPIC_SEGMENT_BYTES = _row(
    whole("offsets.topic.segment.bytes", 100 * MIB, "The segment size of __consumer_offsets.", 1, kind=INT)
)
OFFSETS_TOPIC_COMPRESSION_CODEC = _row(
    whole(
        "offsets.topic.compression.codec",
        0,
        "How batches of __consumer_offsets are compressed: 0 not at all, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        0,
        4,
        kind=INT,
    )
)
OFFSETS_LOAD_BUFFER_SIZE = _row(
    whole(
        "offsets.load.buffer.size",
        5 * MIB,
        "The most bytes of __consumer_offsets read at once when it is loaded; never above 64 KiB here.",
        1,
        kind=INT,
    )
)
OFFSETS_RETENTION_MINUTES = _row(
    whole(
        "offsets.retention.minutes",
        WEEK_MS // MINUTE_MS,
        "How long a dead group's offsets are kept.",
        1,
        kind=INT,
    )
)
OFFSETS_RETENTION_CHECK_INTERVAL_MS = _row(
    whole("offsets.retention.check.interval.ms", 10 * MINUTE_MS, "How often stale offsets are looked for.", 1)
)
OFFSET_METADATA_MAX_BYTES = _row(
    whole("offset.metadata.max.bytes", 4096, "The most bytes of metadata with a commit.", kind=INT)
)
GROUP_INITIAL_REBALANCE_DELAY_MS = _row(
    whole(
        "group.initial.rebalance.delay.ms", 3_000, "How long a new group waits for more members.", 0, kind=INT
    )
)
GROUP_MIN_SESSION_TIMEOUT_MS = _row(
    whole(
        "group.min.session.timeout.ms",
        6_000,
        "The shortest session time-out that a member may ask for.",
        kind=INT,
    )
)
GROUP_MAX_SESSION_TIMEOUT_MS = _row(
    whole(
        "group.max.session.timeout.ms",
        30 * MINUTE_MS,
        "The longest session time-out that a member may ask for.",
        kind=INT,
    )
)
GROUP_MAX_SIZE = _row(whole("group.max.size", INT_MAX, "The members that one group may have.", 1, kind=INT))
_NO_GROUP_CONFIGS = (
    " Taken for Kafka's sake: groups have no settings of their own yet, so it changes nothing."
)
GROUP_COORDINATOR_REBALANCE_PROTOCOLS = _row(
    words(
        "group.coordinator.rebalance.protocols",
        ("classic", "consumer"),
        "The group protocols that are served; classic always is.",
        ("classic", "consumer"),
        empty=False,
    )
)
GROUP_CONSUMER_SESSION_TIMEOUT_MS = _row(
    whole(
        "group.consumer.session.timeout.ms",
        45_000,
        "How long a member of a consumer group may be silent before it is let go.",
        1,
        kind=INT,
    )
)
GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS = _row(
    whole(
        "group.consumer.min.session.timeout.ms",
        45_000,
        "The shortest session time-out of a consumer group." + _NO_GROUP_CONFIGS,
        1,
        kind=INT,
    )
)
GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS = _row(
    whole(
        "group.consumer.max.session.timeout.ms",
        60_000,
        "The longest session time-out of a consumer group." + _NO_GROUP_CONFIGS,
        1,
        kind=INT,
    )
)
GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS = _row(
    whole(
        "group.consumer.heartbeat.interval.ms",
        5_000,
        "The longest time that members of consumer groups are told to let pass between two heartbeats; "
        "it is shorter while group.consumer.heartbeat.rate.max allows it.",
        1,
        kind=INT,
    )
)
GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS = _row(
    whole(
        "group.consumer.min.heartbeat.interval.ms",
        5_000,
        "The shortest heartbeat interval that a consumer group can be given." + _NO_GROUP_CONFIGS,
        1,
        kind=INT,
    )
)
GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS = _row(
    whole(
        "group.consumer.max.heartbeat.interval.ms",
        15_000,
        "The longest heartbeat interval that a consumer group can be given." + _NO_GROUP_CONFIGS,
        1,
        kind=INT,
    )
)
GROUP_CONSUMER_HEARTBEAT_RATE_MAX = _row(
    our_own(
        whole(
            "group.consumer.heartbeat.rate.max",
            250,
            "The heartbeats a second that the broker asks of all members of its consumer groups together: "
            "the fewer they are, the sooner each hears of a rebalance. 0 leaves the interval as it is set.",
            0,
            1_000_000,
            kind=INT,
        )
    )
)
GROUP_CONSUMER_MAX_SIZE = _row(
    whole("group.consumer.max.size", INT_MAX, "The members that one consumer group may have.", 1, kind=INT)
)
GROUP_CONSUMER_ASSIGNORS = _row(
    words(
        "group.consumer.assignors",
        ("uniform", "range"),
        "The assignors that consumer groups may use; the first one where members ask for none.",
        ("uniform", "range"),
        empty=False,
    )
)
GROUP_CONSUMER_MIGRATION_POLICY = _row(
    word(
        "group.consumer.migration.policy",
        "bidirectional",
        "Which groups change their protocol while in use: to consumer (upgrade), to classic (downgrade), "
        "both (bidirectional), or none (disabled).",
        ("bidirectional", "upgrade", "downgrade", "disabled"),
    )
)
TRANSACTION_STATE_LOG_NUM_PARTITIONS = _row(
    whole("transaction.state.log.num.partitions", 50, "The partitions of __transaction_state.", 1, kind=INT)
)
TRANSACTION_STATE_LOG_SEGMENT_BYTES = _row(
    whole(
        "transaction.state.log.segment.bytes",
        100 * MIB,
        "The segment size of __transaction_state.",
        1,
        kind=INT,
    )
)
TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE = _row(
    whole(
        "transaction.state.log.load.buffer.size",
        5 * MIB,
        "The most bytes of __transaction_state read at once when it is loaded; never above 64 KiB here.",
        1,
        kind=INT,
    )
)
TRANSACTION_STATE_LOG_REPLICATION_FACTOR = _row(
    whole(
        "transaction.state.log.replication.factor", 3, "The replicas of __transaction_state.", 1, kind=SHORT
    )
)
TRANSACTION_STATE_LOG_MIN_ISR = _row(
    whole(
        "transaction.state.log.min.isr",
        2,
        "The replicas of __transaction_state that must be in sync.",
        1,
        kind=INT,
    )
)
TRANSACTION_MAX_TIMEOUT_MS = _row(
    whole(
        "transaction.max.timeout.ms",
        15 * MINUTE_MS,
        "The longest time-out that a transaction may ask for.",
        1,
        kind=INT,
    )
)
TRANSACTIONAL_ID_EXPIRATION_MS = _row(
    whole(
        "transactional.id.expiration.ms",
        WEEK_MS,
        "How long a silent transactional id is remembered.",
        1,
        kind=INT,
    )
)
TRANSACTION_PARTITION_VERIFICATION_ENABLE = _live(
    flag(
        "transaction.partition.verification.enable",
        True,
        "Whether a transaction's first write to a partition is checked with its coordinator.",
    )
)
TRANSACTION_TWO_PHASE_COMMIT_ENABLE = _row(
    flag(
        "transaction.two.phase.commit.enable",
        False,
        "Whether producers may keep transactions open for an outside coordinator, without a time-out.",
    )
)
TRANSACTION_ABORT_TIMED_OUT_INTERVAL_MS = _row(
    whole(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        "How long until an abort that could not be written is tried again. A time-out itself is met at once.",
        1,
        kind=INT,
    )
)
TRANSACTION_REMOVE_EXPIRED_INTERVAL_MS = _row(
    whole(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        60 * MINUTE_MS,
        "How often silent transactional ids are looked for.",
        1,
        kind=INT,
    )
)
ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS = _row(
    whole(
        "add.partitions.to.txn.retry.backoff.max.ms",
        100,
        "How long a produce waits for the transaction before it to be over.",
        0,
        kind=INT,
    )
)

# Kafka has these, its server.properties names them, and here nothing depends on them.
_UNUSED = " Taken for Kafka's sake: one event loop serves all, so it changes nothing here."
NUM_NETWORK_THREADS = _live(
    whole("num.network.threads", 3, "Threads that move bytes." + _UNUSED, 1, kind=INT)
)
NUM_IO_THREADS = _live(whole("num.io.threads", 8, "Threads that serve requests." + _UNUSED, 1, kind=INT))
BACKGROUND_THREADS = _live(whole("background.threads", 10, "Threads for chores." + _UNUSED, 1, kind=INT))
NUM_RECOVERY_THREADS_PER_DATA_DIR = _live(
    whole("num.recovery.threads.per.data.dir", 2, "Threads that recover logs." + _UNUSED, 1, kind=INT)
)
OFFSETS_COMMIT_TIMEOUT_MS = _row(
    whole(
        "offsets.commit.timeout.ms",
        5_000,
        "How long a commit waits for replicas. Taken for Kafka's sake: it waits until it is committed, or "
        "until another broker coordinates the group.",
        1,
        kind=INT,
    )
)
QUEUED_MAX_REQUESTS = _row(
    whole("queued.max.requests", 500, "Requests that wait for a thread." + _UNUSED, 1, kind=INT)
)
_NO_SHARE = " Taken for Kafka's sake: there are no share groups yet, so it changes nothing."
SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR = _row(
    whole(
        "share.coordinator.state.topic.replication.factor",
        3,
        "The replicas of __share_group_state." + _NO_SHARE,
        1,
        kind=SHORT,
    )
)
SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR = _row(
    whole(
        "share.coordinator.state.topic.min.isr",
        2,
        "Replicas that must be in sync." + _NO_SHARE,
        1,
        kind=SHORT,
    )
)
REMOTE_LOG_STORAGE_SYSTEM_ENABLE = _row(
    needing(
        flag("remote.log.storage.system.enable", False, "Whether topics may be tiered."), "tiered storage"
    )
)
SECURITY_INTER_BROKER_PROTOCOL = _row(
    needing(
        word(
            "security.inter.broker.protocol",
            "PLAINTEXT",
            "The protocol between brokers, where inter.broker.listener.name does not say.",
            ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        ),
        "TLS and SASL",
    )
)

WITHOUT_EFFECT = frozenset(
    setting.key
    for setting in (
        GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS,
        GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS,
        GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS,
        GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS,
        OFFSETS_COMMIT_TIMEOUT_MS,
        NUM_NETWORK_THREADS,
        NUM_IO_THREADS,
        BACKGROUND_THREADS,
        NUM_RECOVERY_THREADS_PER_DATA_DIR,
        QUEUED_MAX_REQUESTS,
        SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR,
        SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR,
    )
)

for _topic_setting in TOPIC_SETTINGS.values():
    for _twin in _topic_setting.twins:
        _row(_twin.setting)

BROKER_SETTINGS: Mapping[str, Setting[Any]] = MappingProxyType(_rows)
"""Every setting that a broker may have, the twins of the topics' included, by key."""
