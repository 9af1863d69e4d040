"""The simulated disk loses what it may lose, keeps what it must keep, and fails as it is told to."""

import errno
from collections.abc import Callable

import pytest

from everlog.sim.chance import SimRandom
from everlog.sim.clock import SimClock
from everlog.sim.disk import SimFiles
from everlog.sim.faults import Crashed, Fault, Kind, Moment, Operation
from everlog.sim.handle import SimFile
from everlog.sim.platter import Loss

SEEDS = range(300)


def a_disk(name: str = "/d/a", synced: bytes = b"") -> tuple[SimFiles, SimFile]:
    """A disk with one file whose name and first bytes are durable."""
    files = SimFiles()
    files.make_dir("/d")
    file = files.open(name, create=True)
    if synced:
        file.append([synced])
    file.sync()
    files.sync_dir("/d")
    files.sync_dir("/")
    return files, file


def errno_of(call: Callable[[], object]) -> int | None:
    with pytest.raises(OSError) as caught:
        call()
    return caught.value.errno


def outcomes(files: SimFiles, path: str = "/d/a") -> set[bytes | None]:
    """All that a crash may leave of a file, as far as the seeds show it."""
    return {files.after_crash(SimRandom(seed)).tree().get(path) for seed in SEEDS}


def test_what_was_synced_survives_every_crash() -> None:
    files, _ = a_disk(synced=b"synced")

    assert outcomes(files) == {b"synced"}


def test_an_unsynced_write_may_survive_be_lost_be_torn_and_be_zeros() -> None:
    files, file = a_disk(synced=b"synced,")
    file.append([b"not"])

    assert outcomes(files) == {
        b"synced,", b"synced,n", b"synced,no", b"synced,not",
        b"synced,n\0\0", b"synced,no\0", b"synced,\0\0\0",
    }  # fmt: skip
    assert files.after_crash(SimRandom(0), Loss.ALL).read("/d/a") == b"synced,"
    assert files.after_crash(SimRandom(0), Loss.NONE).read("/d/a") == b"synced,not"


def test_a_later_write_may_survive_an_earlier_one() -> None:
    files, file = a_disk()
    file.append([b"AAAA"])
    file.append([b"BBBB"])

    assert b"\0\0\0\0BBBB" in outcomes(files)
    assert all(left is not None and left.strip(b"\0AB") == b"" for left in outcomes(files))


def test_large_writes_are_torn_at_sectors() -> None:
    files, file = a_disk(synced=b"x" * 100)
    file.append([b"y" * 20_000])

    sizes = {len(left or b"") for left in outcomes(files)}

    assert {512, 4096, 8192} & sizes
    assert len([size for size in sizes if size % 512]) > 2


def test_a_lost_cut_takes_later_writes_with_it() -> None:
    files, file = a_disk(synced=b"0123456789")
    file.truncate(2)
    file.append([b"ab"])

    left = outcomes(files)

    assert {b"0123456789", b"01", b"01ab"} <= left
    assert all(content == b"0123456789" or (content or b"").startswith(b"01") for content in left)
    assert all(content == b"0123456789" or len(content or b"") <= 4 for content in left)


def test_a_name_is_durable_with_its_directory_and_not_with_its_file() -> None:
    files, _ = a_disk()
    new = files.open("/d/new", create=True)
    new.append([b"bytes"])
    new.sync()

    assert outcomes(files, "/d/new") == {None, b"bytes"}
    files.sync_dir("/d")
    assert outcomes(files, "/d/new") == {b"bytes"}


def test_a_rename_happens_or_does_not() -> None:
    files, file = a_disk(synced=b"old")
    new = files.open("/d/a.tmp", create=True)
    new.append([b"new"])
    new.sync()
    files.sync_dir("/d")
    files.rename("/d/a.tmp", "/d/a")

    trees = [files.after_crash(SimRandom(seed)).tree() for seed in SEEDS]

    before, after = {"/d": None, "/d/a": b"old", "/d/a.tmp": b"new"}, {"/d": None, "/d/a": b"new"}
    assert before in trees
    assert after in trees
    assert all(tree in (before, after) for tree in trees)
    assert file.gone == errno.ENOENT


def test_no_crash_leaves_one_file_under_two_names() -> None:
    files, _ = a_disk(synced=b"unique")
    for old, new in (("a", "b"), ("b", "c"), ("c", "e")):
        files.rename(f"/d/{old}", f"/d/{new}")

    trees = [files.after_crash(SimRandom(seed)).tree() for seed in SEEDS]

    assert {path for tree in trees for path in tree} == {"/d", "/d/a", "/d/b", "/d/c", "/d/e"}
    assert all(len(tree) == 2 for tree in trees)


def test_removed_names_may_come_back_in_any_combination() -> None:
    files, _ = a_disk()
    for name in "bc":
        files.open(f"/d/{name}", create=True)
    files.sync_dir("/d")
    files.unlink("/d/b")
    files.unlink("/d/c")

    seen = {tuple(files.after_crash(SimRandom(seed)).names("/d")) for seed in SEEDS}

    assert seen == {("a",), ("a", "b"), ("a", "c"), ("a", "b", "c")}


def test_a_renamed_directory_comes_back_with_all_that_is_in_it() -> None:
    files, _ = a_disk(synced=b"bytes")
    files.rename("/d", "/d.delete")
    files.unlink("/d.delete/a")

    seen = {tuple(files.after_crash(SimRandom(seed)).tree()) for seed in SEEDS}

    assert seen == {("/d", "/d/a"), ("/d",), ("/d.delete", "/d.delete/a"), ("/d.delete",)}


def test_a_crash_is_the_same_for_the_same_seed_and_leaves_the_disk_as_it_is() -> None:
    files, file = a_disk(synced=b"synced")
    for n in range(20):
        file.append([b"%d" % n * 300])
        files.open(f"/d/{n}", create=True)
    before = files.tree()

    trees = [[files.after_crash(SimRandom(seed)).tree() for seed in range(50)] for _ in range(2)]

    assert trees[0] == trees[1]
    assert files.tree() == before
    found = files.after_crash(SimRandom(3))
    assert found.after_crash(SimRandom(4)).tree() == found.tree()


def test_a_failed_sync_leaves_pages_that_look_clean_and_are_not() -> None:
    files, file = a_disk(synced=b"synced")
    file.append([b" not"])
    files.faults.append(Fault(Kind.SYNC, errno.EIO, times=1))

    assert errno_of(file.sync) == errno.EIO
    assert file.broken
    assert errno_of(lambda: file.append([b"x"])) == errno.EIO

    again = files.open("/d/a")
    again.sync()
    assert again.read(0, 99) == b"synced not"
    assert outcomes(files) == {b"synced"}

    file.rewrite(6, [b" not"])
    assert not file.broken
    assert outcomes(files) == {b"synced not"}


def test_a_write_that_fails_half_way_is_taken_back() -> None:
    files, file = a_disk(synced=b"kept")
    files.faults.append(Fault(Kind.APPEND, errno.EIO, times=1, after_bytes=2))

    assert errno_of(lambda: file.append([b"torn"])) == errno.EIO
    assert (files.read("/d/a"), file.size, file.broken) == (b"kept", 4, False)
    assert file.append([b"more"]) == 4


def test_a_write_that_cannot_be_taken_back_breaks_the_file() -> None:
    files, file = a_disk(synced=b"kept")
    files.faults += [Fault(Kind.APPEND, errno.EIO, after_bytes=2), Fault(Kind.CUT_BACK, errno.EIO)]

    assert errno_of(lambda: file.append([b"torn"])) == errno.EIO
    assert file.broken
    assert (file.size, file.read(0, 99), files.read("/d/a")) == (4, b"kept", b"keptto")
    files.faults.clear()
    assert errno_of(lambda: file.append([b"x"])) == errno.EIO


def test_a_full_disk_takes_no_more_until_room_is_made() -> None:
    files, file = a_disk(synced=b"12345678")
    files.open("/d/b", create=True).append([b"1234"])
    files.quota_bytes = 14

    assert files.free_bytes("/d") == 2
    assert errno_of(lambda: file.append([b"abc"])) == errno.ENOSPC
    assert (file.size, files.free_bytes("/d"), file.broken) == (8, 2, False)
    file.append([b"ab"])
    files.unlink("/d/b")
    assert files.free_bytes("/d") == 4
    file.append([b"cdef"])
    file.truncate(1)
    assert files.free_bytes("/d") == 13


def test_a_fault_strikes_what_it_names_as_often_as_it_says() -> None:
    files, file = a_disk(synced=b"bytes")
    other = files.open("/d/other", create=True)
    files.faults.append(Fault(Kind.READ, errno.EIO, path_part="/a", skip=1, times=2))

    assert other.read(0, 1) == b""
    assert file.read(0, 1) == b"b"
    assert errno_of(lambda: file.read(0, 1)) == errno.EIO
    assert errno_of(lambda: files.read("/d/a")) == errno.EIO
    assert file.read(0, 1) == b"b"


def test_a_flipped_bit_is_read_and_stays_flipped() -> None:
    files, file = a_disk(synced=b"abc")

    files.flip_bit("/d/a", 1, 0)

    assert file.read(0, 3) == b"acc"
    assert outcomes(files) == {b"acc"}


@pytest.mark.parametrize(
    ("moment", "left"),
    [(Moment.BEFORE, b"one"), (Moment.HALFWAY, b"oneth"), (Moment.AFTER, b"onethree")],
)
def test_a_disk_stops_at_the_operation_it_was_told_to_stop_at(moment: Moment, left: bytes) -> None:
    files, file = a_disk(synced=b"one")
    files.crash_at(files.operations + 1, moment)

    file.sync()
    with pytest.raises(Crashed):
        file.append([b"three"])

    for call in (file.sync, lambda: files.names("/d"), lambda: file.append([b"x"]), lambda: file.read(0, 1)):
        with pytest.raises(Crashed):
            call()
    assert files.after_crash(SimRandom(0), Loss.NONE).read("/d/a") == left


def test_what_has_no_halfway_is_stopped_before() -> None:
    files, _ = a_disk()
    files.crash_at(files.operations, Moment.HALFWAY)

    with pytest.raises(Crashed):
        files.rename("/d/a", "/d/b")

    assert files.after_crash(SimRandom(0), Loss.NONE).names("/d") == ["a"]


def test_every_changing_operation_is_watched_and_counted_and_reading_is_not() -> None:
    files = SimFiles()
    seen: list[tuple[int, Kind, Moment]] = []

    def watch(operation: Operation, moment: Moment) -> None:
        seen.append((operation.number, operation.kind, moment))

    files.watch = watch
    files.make_dir("/d")
    file = files.open("/d/a", create=True)
    file.append([b"bytes"])
    file.truncate(2)
    file.sync()
    files.rename("/d/a", "/d/b")
    files.unlink("/d/b")
    files.sync_dir("/d")
    files.remove_dir("/d")
    files.names("/")

    kinds = [kind for _, kind, moment in seen if moment is Moment.BEFORE]
    assert kinds == [
        Kind.MAKE_DIR, Kind.CREATE, Kind.APPEND, Kind.TRUNCATE, Kind.SYNC, Kind.RENAME, Kind.UNLINK,
        Kind.SYNC_DIR, Kind.REMOVE_DIR,
    ]  # fmt: skip
    assert [kind for _, kind, moment in seen if moment is Moment.HALFWAY] == [Kind.APPEND]
    assert [number for number, _, moment in seen if moment is Moment.AFTER] == list(range(9))
    assert files.operations == 9


def test_a_watcher_may_look_at_every_crash_on_the_way() -> None:
    files, file = a_disk(synced=b"one")
    left: list[bytes] = []

    def watch(operation: Operation, moment: Moment) -> None:
        left.append(files.after_crash(SimRandom(0), Loss.NONE).read("/d/a"))

    files.watch = watch
    file.append([b"three"])

    assert left == [b"one", b"oneth", b"onethree"]
    assert file.read(0, 99) == b"onethree"


def test_a_file_knows_when_it_was_written() -> None:
    clock = SimClock()
    files = SimFiles(clock)
    file = files.open("/a", create=True)
    clock.advance(1234)
    file.append([b"x"])
    clock.advance(1)

    assert files.modified("/a") == clock.wall() - 1
    assert files.after_crash(SimRandom(0), Loss.NONE).modified("/a") == clock.wall() - 1
