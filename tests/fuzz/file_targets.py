"""Targets of the disk: every file that is read at a start, as rot or another program may have left it."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from everlog.controller.snapshotter import image_in
from everlog.embedded.layout import FILE_NAME, Layout, PlannedBroker, properties_text
from everlog.log.aborted_index import AbortedTxn, pack, unpack
from everlog.log.checkpoint import (
    MetaProperties,
    clean_shutdown_content,
    epochs_content,
    offsets_content,
    partition_metadata_content,
    read_clean_shutdown,
    read_epochs,
    read_meta_properties,
    read_offsets,
    read_partition_metadata,
)
from everlog.log.offset_index import GrowingOffsetIndex, SealedOffsetIndex
from everlog.log.producers import Producers, ProducerState, Sent
from everlog.log.scan import batches, headers
from everlog.log.snapshot import read_snapshot, snapshot_bytes
from everlog.log.time_index import GrowingTimeIndex, SealedTimeIndex
from everlog.metadata.image import ClusterImage
from everlog.metadata.image_records import image_of, image_records
from everlog.metadata.records import encode_record
from everlog.model.errors import ConfigError, CorruptDataError
from everlog.model.ids import LeaderEpoch, Offset, ProducerId, Uuid
from everlog.model.settings import parse_broker_settings
from everlog.model.settings.properties import parse_properties
from everlog.model.topics import TopicPartition
from everlog.ports.files import File, Files
from everlog.raft.control import voters_in
from everlog.raft.messages import ReplicaKey, SnapshotId
from everlog.raft.snapshots import SnapshotFiles, check, snapshot_batches
from everlog.raft.store import QuorumState, decode_state, encode_state
from everlog.raft.voters import VoterSet
from everlog.records.batch import HEADER_BYTES
from everlog.records.builder import NewRecord, build_batch
from everlog.records.crc import crc32c
from everlog.wire.message import Message
from everlog.wire.messages.config_record import ConfigRecord
from everlog.wire.messages.feature_level_record import FeatureLevelRecord
from everlog.wire.messages.partition_record import PartitionRecord
from everlog.wire.messages.producer_ids_record import ProducerIdsRecord
from everlog.wire.messages.register_broker_record import RegisterBrokerRecord
from everlog.wire.messages.topic_record import TopicRecord
from tests.fuzz.target import Target, found

BASE = 1_000
END = 1 << 40
_UUID = Uuid(bytes(range(1, 17)))
_SNAPSHOT = SnapshotId(Offset(100), 3)
_LARGEST_TEXT = 8192
"""Beyond what Python takes as digits of one number, and as depth of one JSON value."""


class OneFile:
    """A disk with one file on it, which is also that file: as much of both ports as readers ask for."""

    path = "/fuzz/file"

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def size(self) -> int:
        return len(self._data)

    def exists(self, path: str) -> bool:
        return True

    def read(self, at: int | str, length: int | None = None) -> bytes:
        if isinstance(at, str):
            return self._data
        assert length is not None
        return self._data[at : at + length]


def _files(data: bytes) -> Files:
    return cast("Files", OneFile(data))


def _offset_index(data: bytes) -> None:
    """Growing and sealed, the index gives the same answers; written out, it is the file it was read from."""
    try:
        sealed = SealedOffsetIndex(BASE, memoryview(data))
        growing = GrowingOffsetIndex.load(BASE, data)
    except CorruptDataError:
        return
    found(len(sealed) == len(growing), "entries are lost")
    growing.saved = 0
    found(growing.unsaved() == data, "an offset index changes when written")
    for at in {0, len(sealed) // 2, len(sealed) - 1} if len(sealed) else set[int]():
        offset, position = sealed.entry(at)
        found(sealed.floor(offset) == growing.floor(offset), "growing and sealed differ")
        found(
            sealed.floor_position(position) == growing.floor_position(position), "growing and sealed differ"
        )
    growing.cut(500)
    growing.floor(BASE)


def _offset_index_seeds() -> list[bytes]:
    index = GrowingOffsetIndex(BASE, [(BASE + 9, 100), (BASE + 30, 4_500), (BASE + 2**31, 2**31)])
    return [index.unsaved(), index.unsaved()[:8], b""]


def _time_index(data: bytes) -> None:
    try:
        sealed = SealedTimeIndex(BASE, memoryview(data))
        sealed.floor(1 << 40)
        growing = GrowingTimeIndex.load(BASE, data)
    except CorruptDataError:
        return
    growing.saved = 0
    found(growing.unsaved() == data, "a time index changes when written")
    found(sealed.last() == growing.last(), "growing and sealed differ")
    for timestamp in (-(1 << 63), -1, 0, 1 << 40, (1 << 63) - 1):
        found(sealed.floor(timestamp) == growing.floor(timestamp), "growing and sealed differ")
    growing.cut(BASE + 20)


def _time_index_seeds() -> list[bytes]:
    index = GrowingTimeIndex(
        BASE, [(1 << 40, BASE + 9), ((1 << 40) + 5, BASE + 30), (1 << 62, BASE + 2**32 - 1)]
    )
    return [index.unsaved(), index.unsaved()[:12], b""]


def _txn_index(data: bytes) -> None:
    try:
        entries = unpack(data, BASE, END)
    except CorruptDataError:
        return
    found(pack(entries) == data, "a transaction index changes when written")
    found(all(BASE <= entry.last_offset < END for entry in entries), "a marker outside of its segment")


def _txn_index_seeds() -> list[bytes]:
    entries = [
        AbortedTxn(ProducerId(5), Offset(990), Offset(1_004), Offset(1_005)),
        AbortedTxn(ProducerId(6), Offset(1_001), Offset(1_020), Offset(1_003)),
    ]
    return [pack(entries), pack(entries[:1]), b""]


def _snapshot(data: bytes) -> None:
    """As it is, and with its checksum mended, so that what lies behind is reached."""
    if len(data) >= 6:
        data = data[:2] + crc32c(data[6:]).to_bytes(4, "big") + data[6:]
    try:
        producers = read_snapshot(data)
    except CorruptDataError:
        return
    once = snapshot_bytes(producers)
    found(snapshot_bytes(read_snapshot(once)) == once, "a producer snapshot changes when written")


def _snapshot_seeds() -> list[bytes]:
    producers = Producers()
    for number in range(3):
        state = ProducerState(ProducerId(number), number)
        state.window = [Sent(i, i, Offset(i), Offset(i), 1 << 40) for i in range(number * 2)]
        state.last_timestamp = 1 << 40
        state.txn_first_offset = Offset(3) if number == 2 else None
        producers.put(state)
    return [snapshot_bytes(producers), snapshot_bytes(Producers())]


def _metadata_snapshot(data: bytes) -> None:
    """As it is, and with offsets and checksums mended, so that what lies behind is reached.

    It may come from another controller, so nothing but a refusal may come of it, whatever is in it.
    """
    for content in (data, _proved(data)):
        files = SnapshotFiles(_files(content), "d")
        try:
            check(content)
            for batch in files.batches(_SNAPSHOT):
                voters_in(batch)
            image = image_in(files.batches(_SNAPSHOT), _SNAPSHOT)
        except CorruptDataError:
            continue
        written = b"".join(_metadata_snapshot_of(image))
        check(written)
        again = image_in(SnapshotFiles(_files(written), "d").batches(_SNAPSHOT), _SNAPSHOT)
        found(again == image, "a metadata snapshot changes when written")


def _metadata_snapshot_of(image: ClusterImage) -> Iterator[bytes | bytearray]:
    return snapshot_batches(_SNAPSHOT, map(encode_record, image_records(image)), 1 << 40)


def _proved(data: bytes) -> bytes:
    """The batches of some bytes, each with the offset and the checksum that belong there."""
    made, position, offset = bytearray(data), 0, 0
    while position + HEADER_BYTES <= len(made):
        size = 12 + int.from_bytes(made[position + 8 : position + 12], "big", signed=True)
        if size < HEADER_BYTES or position + size > len(made):
            break
        made[position : position + 8] = offset.to_bytes(8, "big")
        made[position + 17 : position + 21] = crc32c(made[position + 21 : position + size]).to_bytes(4, "big")
        offset += max(0, int.from_bytes(made[position + 23 : position + 27], "big", signed=True)) + 1
        position += size
    return bytes(made)


def _metadata_snapshot_seeds() -> list[bytes]:
    topic, node, incarnation = _UUID, 1, Uuid(bytes(range(2, 18)))
    records: list[Message] = [
        FeatureLevelRecord(name="metadata.version", feature_level=25),
        RegisterBrokerRecord(broker_id=node, incarnation_id=incarnation, broker_epoch=3, log_dirs=[_UUID]),
        TopicRecord(name="orders", topic_id=topic),
        PartitionRecord(partition_id=0, topic_id=topic, replicas=[node], isr=[node], leader=node),
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="5"),
        ProducerIdsRecord(broker_id=node, broker_epoch=3, next_producer_id=1000),
    ]
    controls = [
        b"".join(snapshot_batches(_SNAPSHOT, [], 1 << 40, voters))
        for voters in (None, VoterSet([ReplicaKey(1, _UUID)]))
    ]
    image = image_of(records, Offset(_SNAPSHOT.end), _SNAPSHOT.epoch)
    # A control batch that has lost its record, as a compacted log may have them.
    empty = bytearray(controls[0][:HEADER_BYTES])
    empty[8:12], empty[57:61] = (HEADER_BYTES - 12).to_bytes(4, "big"), bytes(4)
    return [b"".join(_metadata_snapshot_of(image)), *controls, bytes(empty), b""]


def _epochs(data: bytes) -> None:
    try:
        entries = read_epochs(_files(data), "f")
    except CorruptDataError:
        return
    found(read_epochs(_files(epochs_content(entries)), "f") == entries, "epochs change when written")


def _offsets(data: bytes) -> None:
    try:
        offsets = read_offsets(_files(data), "f")
    except CorruptDataError:
        return
    found(read_offsets(_files(offsets_content(offsets)), "f") == offsets, "offsets change when written")


def _partition_metadata(data: bytes) -> None:
    try:
        topic_id = read_partition_metadata(_files(data), "f")
    except CorruptDataError:
        return
    assert topic_id is not None
    again = read_partition_metadata(_files(partition_metadata_content(topic_id)), "f")
    found(again == topic_id, "a topic id changes when written")


def _meta_properties(data: bytes) -> None:
    try:
        properties = read_meta_properties(_files(data), "f")
    except CorruptDataError:
        return
    assert properties is not None
    found(
        read_meta_properties(_files(properties.content()), "f") == properties,
        "properties change when written",
    )


def _clean_shutdown(data: bytes) -> None:
    try:
        epoch = read_clean_shutdown(_files(data), "f")
    except CorruptDataError:
        return
    assert epoch is not None
    found(
        read_clean_shutdown(_files(clean_shutdown_content(epoch)), "f") == epoch,
        "an epoch changes when written",
    )


def _quorum_state(data: bytes) -> None:
    try:
        state = decode_state(data)
    except CorruptDataError:
        return
    found(decode_state(encode_state(state)) == state, "a quorum state changes when written")


def _server_properties(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    try:
        parse_properties(text)
        parse_broker_settings(text)
    except ConfigError:
        pass


@cache
def _home() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="everlog-fuzz-")


def _cluster_layout(data: bytes) -> None:
    """A layout that is taken can be acted upon, and is the same when it was written again."""
    directory = Path(_home().name)
    (directory / FILE_NAME).write_bytes(data)
    try:
        layout = Layout.found(directory)
    except ConfigError:
        return
    assert layout is not None
    for broker in layout.brokers:
        settings = layout.settings(broker, directory, "127.0.0.1", {})
        parse_broker_settings(properties_text(settings))
    found(0 < layout.majority <= len(layout.brokers), f"{layout} has no majority")
    layout.keep(directory)
    found(Layout.found(directory) == layout, "a layout changes when written")


def _cluster_layout_seeds() -> list[bytes]:
    brokers = (PlannedBroker(1, 12_000, 12_001), PlannedBroker(2, 12_002, None))
    with TemporaryDirectory(prefix="everlog-fuzz-") as name:
        Layout("4L6g3nShT-eMCtK--X86sw", brokers).keep(Path(name))
        written = (Path(name) / FILE_NAME).read_bytes()
    return [written, b'{"cluster_id": "x", "brokers": []}', b"{}"]


def _segment(data: bytes) -> None:
    """A segment walked by header and by checksum: what the second proves, the first finds as well."""
    file = cast("File", OneFile(data))
    walked: list[int] | None = []
    try:
        walked = [header.position for header in headers(file, 0, len(data))]
    except CorruptDataError:
        walked = None
    proved: list[int] = []
    whole = True
    try:
        for position, _ in batches(file, 0, len(data)):
            proved.append(position)
    except CorruptDataError:
        whole = False
    if whole:
        found(walked == proved, "batches were proved that a walk does not find")


def _segment_seeds() -> list[bytes]:
    small = [
        bytes(build_batch([NewRecord(b"k", b"v", (), 1 << 40)], base_offset=BASE + i, leader_epoch=1))
        for i in range(4)
    ]
    return [b"".join(small), small[0], b"".join(small)[:-5]]


def _texts(*texts: str) -> Callable[[], list[bytes]]:
    return lambda: [text.encode() for text in texts]


_PROPERTIES = """# a comment
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
advertised.listeners=PLAINTEXT://localhost:9092
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:9093
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=/tmp/everlog
log.retention.hours = 168
log.segment.bytes: 1073741824
log.cleanup.policy=compact,delete
log.cleaner.min.cleanable.ratio=0.5
auto.create.topics.enable=true
"""

FILE_TARGETS = (
    Target("offset_index", _offset_index, _offset_index_seeds),
    Target("time_index", _time_index, _time_index_seeds),
    Target("txn_index", _txn_index, _txn_index_seeds),
    Target("producer_snapshot", _snapshot, _snapshot_seeds),
    Target(
        "leader_epochs",
        _epochs,
        lambda: [epochs_content([(LeaderEpoch(1), Offset(0)), (LeaderEpoch(4), Offset(77))]), b"0\n0\n", b""],
        largest_input=_LARGEST_TEXT,
    ),
    Target(
        "offset_checkpoint",
        _offsets,
        lambda: [
            offsets_content({TopicPartition("a-b.c", 0): Offset(5), TopicPartition("x", 12): Offset(0)}),
            b"0\n0\n",
        ],
        largest_input=_LARGEST_TEXT,
    ),
    Target("partition_metadata", _partition_metadata, lambda: [partition_metadata_content(_UUID)]),
    Target("meta_properties", _meta_properties, lambda: [MetaProperties("cluster", 1, _UUID).content()]),
    Target(
        "clean_shutdown",
        _clean_shutdown,
        lambda: [clean_shutdown_content(-1), b'{"version":0,"brokerEpoch":1e3}', b'{"brokerEpoch":"7"}'],
        largest_input=_LARGEST_TEXT,
    ),
    Target(
        "quorum_state",
        _quorum_state,
        lambda: [
            encode_state(QuorumState(4, 1, 1, _UUID)),
            b'{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
            b'"currentVoters":[{"voterId":1}],"data_version":0}',
        ],
        largest_input=_LARGEST_TEXT,
    ),
    Target(
        "server_properties",
        _server_properties,
        _texts(_PROPERTIES, "a\\\n b=c\\u0041\\t\n!x\nk", "node.id=\\u12"),
    ),
    Target("cluster_layout", _cluster_layout, _cluster_layout_seeds, largest_input=_LARGEST_TEXT),
    Target("segment", _segment, _segment_seeds),
    Target("metadata_snapshot", _metadata_snapshot, _metadata_snapshot_seeds, weight=2),
)
