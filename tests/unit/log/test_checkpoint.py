"""Small files, replaced as a whole, in Kafka's formats."""

import pytest

from everlog.log import checkpoint
from everlog.model.errors import CorruptDataError
from everlog.model.ids import LeaderEpoch, Offset, Uuid
from everlog.model.topics import TopicPartition
from everlog.sim.chance import SimRandom
from everlog.sim.disk import SimFiles
from everlog.sim.faults import Crashed, Moment

PATH = "/d/file"
A_UUID = Uuid(bytes(range(16)))


def a_disk(content: bytes | None = None) -> SimFiles:
    files = SimFiles()
    files.make_dir("/d")
    files.sync_dir("/")
    if content is not None:
        checkpoint.replace_file(files, PATH, content)
    return files


def test_offsets_have_kafkas_text() -> None:
    offsets = {TopicPartition("b", 1): Offset(7), TopicPartition("a.b-c", 10): Offset(0)}
    content = checkpoint.offsets_content(offsets)
    assert content == b"0\n2\na.b-c 10 0\nb 1 7\n"
    assert checkpoint.read_offsets(a_disk(content), PATH) == offsets
    assert checkpoint.read_offsets(a_disk(), PATH) == {}


def test_epochs_have_kafkas_text() -> None:
    entries = [(LeaderEpoch(0), Offset(0)), (LeaderEpoch(3), Offset(12))]
    content = checkpoint.epochs_content(entries)
    assert content == b"0\n2\n0 0\n3 12\n"
    assert checkpoint.read_epochs(a_disk(content), PATH) == entries


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"1\n0\n", "line 1"),
        (b"0\n", "line 1"),
        (b"0\nx\n", "line 2"),
        (b"0\n2\na 0 1\n", "line 2"),
        (b"0\n1\na 0\n", "line 3"),
        (b"0\n1\na 0 -1\n", "line 3"),
        (b"0\n1\na 0 99999999999999999999\n", "line 3"),
        (b"0\n2\na 0 1\na 0 1\n", "line 4"),
        (b"0\n1\na 0 1", "newline"),
        (b"0\n1\n\xc3 0 1\n", "byte 4"),
    ],
)
def test_a_damaged_checkpoint_names_file_and_line(content: bytes, line: str) -> None:
    with pytest.raises(CorruptDataError, match=line) as damaged:
        checkpoint.read_offsets(a_disk(content), PATH)
    assert PATH in str(damaged.value)


@pytest.mark.parametrize("line", [b"topic 00 1", b"topic 0 01", b"topic 0 -1", b"topic 0 +1"])
def test_a_number_is_written_in_one_way_only(line: bytes) -> None:
    with pytest.raises(CorruptDataError):
        checkpoint.read_offsets(a_disk(b"0\n1\n" + line + b"\n"), PATH)


@pytest.mark.parametrize("content", [b"0\n2\n0 0\n0 5\n", b"0\n2\n0 5\n1 5\n", b"0\n1\n0 0 0\n"])
def test_epochs_must_rise(content: bytes) -> None:
    with pytest.raises(CorruptDataError):
        checkpoint.read_epochs(a_disk(content), PATH)


def test_partition_metadata_has_the_topics_id() -> None:
    content = checkpoint.partition_metadata_content(A_UUID)
    assert content == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"
    assert checkpoint.read_partition_metadata(a_disk(content), PATH) == A_UUID
    assert checkpoint.read_partition_metadata(a_disk(), PATH) is None
    for bad in (b"", b"version: 1\ntopic_id: x\n", content.replace(b"AAEC", b"A")):
        with pytest.raises(CorruptDataError):
            checkpoint.read_partition_metadata(a_disk(bad), PATH)


def test_meta_properties_says_whose_directory_it_is() -> None:
    properties = checkpoint.MetaProperties("some-cluster", 3, A_UUID)
    content = properties.content()
    assert content.startswith(b"version=1\ncluster.id=some-cluster\nnode.id=3\ndirectory.id=")
    assert checkpoint.read_meta_properties(a_disk(b"#comment\n" + content), PATH) == properties
    assert checkpoint.read_meta_properties(a_disk(), PATH) is None
    for bad in (
        b"",
        content.replace(b"version=1", b"version=0"),
        content.replace(b"node.id=3", b"node.id=x"),
        content.replace(b"node.id=3", b"node.id=03"),
        content.replace(b"node.id=3", b"node.id= 3"),
        content.replace(b"node.id=3", b"node.id=2147483648"),
        content.replace(b"cluster.id=some-cluster", b"cluster.id="),
        content.replace(b"Dw\n", b"Dx\n"),  # Bits that an id does not have.
        content + b"node.id=4\n",
        content + b"nodf.id=3\n",
        content + b"no more\n",
    ):
        with pytest.raises(CorruptDataError):
            checkpoint.read_meta_properties(a_disk(bad), PATH)


def test_the_clean_shutdown_marker_bears_the_broker_epoch() -> None:
    content = checkpoint.clean_shutdown_content(44)
    assert content == b'{"version": 0, "brokerEpoch": 44}'
    assert checkpoint.read_clean_shutdown(a_disk(content), PATH) == 44
    assert checkpoint.read_clean_shutdown(a_disk(), PATH) is None
    for bad in (
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"version": 1, "brokerEpoch": 4}',
        b'{"brokerEpoch": 4}',
        b'{"version": 0, "brokerEpoch": "4"}',
        b'{"version": 0, "brokerEpoch": -2}',
        b'{"version": 0, "brokerEpoch": 4, "x": 1}',
    ):
        with pytest.raises(CorruptDataError):
            checkpoint.read_clean_shutdown(a_disk(bad), PATH)


def test_a_crash_leaves_the_old_file_or_the_new_one_and_the_new_one_once_it_is_replaced() -> None:
    operations = a_disk(b"old")
    before = operations.operations
    checkpoint.replace_file(operations, PATH, b"new")
    for number in range(before, operations.operations):
        for moment in Moment:
            for seed in range(6):
                files = a_disk(b"old")
                files.crash_at(number, moment)
                with pytest.raises(Crashed):
                    checkpoint.replace_file(files, PATH, b"new")
                assert files.after_crash(SimRandom(seed)).read(PATH) in (b"old", b"new")
    for seed in range(20):
        assert operations.after_crash(SimRandom(seed)).read(PATH) == b"new"


def test_partition_metadata_as_kafka_writes_it_is_read() -> None:
    content = checkpoint.partition_metadata_content(A_UUID).rstrip(b"\n")

    assert checkpoint.read_partition_metadata(a_disk(content), PATH) == A_UUID
    with pytest.raises(CorruptDataError):
        checkpoint.read_partition_metadata(a_disk(content[:-1]), PATH)
