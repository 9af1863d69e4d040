"""What every disk promises, real or simulated."""

import errno
from collections.abc import Callable

import pytest

from everlog.ports.files import Files, FileSlice


def write(files: Files, path: str, data: bytes) -> None:
    file = files.open(path, create=True)
    file.append([data])
    file.close()


def errno_of(call: Callable[[], object]) -> int | None:
    with pytest.raises(OSError) as caught:
        call()
    return caught.value.errno


def test_a_file_must_be_there_to_be_opened_unless_it_may_be_made(files: Files, home: str) -> None:
    with pytest.raises(FileNotFoundError):
        files.open(f"{home}/a")

    assert files.open(f"{home}/a", create=True).size == 0
    assert files.open(f"{home}/a").size == 0


def test_a_file_cannot_be_made_in_a_directory_that_is_not_there(files: Files, home: str) -> None:
    with pytest.raises(FileNotFoundError):
        files.open(f"{home}/nowhere/a", create=True)


def test_a_directory_is_not_a_file(files: Files, home: str) -> None:
    files.make_dir(f"{home}/d")

    assert errno_of(lambda: files.open(f"{home}/d")) == errno.EISDIR
    assert errno_of(lambda: files.open(f"{home}/d", create=True)) == errno.EISDIR
    assert errno_of(lambda: files.size(f"{home}/d")) == errno.EISDIR


def test_appends_lie_one_after_the_other(files: Files, home: str) -> None:
    file = files.open(f"{home}/a", create=True)

    assert file.append([b"one"]) == 0
    assert file.append([bytearray(b"two"), memoryview(b"three"), b""]) == 3
    assert file.append([b""]) == 11
    assert file.append([]) == 11
    assert file.size == 11
    assert file.read(0, 100) == b"onetwothree"
    assert not file.broken


def test_bytes_that_are_written_again_are_the_same_and_the_file_grows_on(files: Files, home: str) -> None:
    file = files.open(f"{home}/a", create=True)
    file.append([b"durable, in doubt"])

    file.rewrite(9, iter([b"in ", b"doubt"]))

    assert (file.size, file.read(0, 99), file.broken) == (17, b"durable, in doubt", False)
    assert file.append([b", more"]) == 17
    file.rewrite(file.size, ())
    assert files.read(f"{home}/a") == b"durable, in doubt, more"


def test_an_append_of_more_buffers_than_the_kernel_takes_at_once_is_whole(files: Files, home: str) -> None:
    file = files.open(f"{home}/a", create=True)

    file.append([b"%04d" % n for n in range(3000)])

    assert file.read(0, 12_000) == b"".join(b"%04d" % n for n in range(3000))


def test_buffers_may_be_reused_after_an_append(files: Files, home: str) -> None:
    file = files.open(f"{home}/a", create=True)
    buffer = bytearray(b"kept")

    file.append([buffer])
    buffer[:] = b"gone"

    assert file.read(0, 4) == b"kept"


def test_a_read_returns_fewer_bytes_only_at_the_end(files: Files, home: str) -> None:
    file = files.open(f"{home}/a", create=True)
    file.append([b"0123456789"])

    assert file.read(2, 3) == b"234"
    assert file.read(8, 5) == b"89"
    assert file.read(10, 5) == b""
    assert file.read(99, 5) == b""
    assert FileSlice(file, 4, 2).read() == b"45"


def test_a_cut_file_grows_again_from_its_new_end(files: Files, home: str) -> None:
    file = files.open(f"{home}/a", create=True)
    file.append([b"0123456789"])

    file.truncate(4)
    assert (file.size, file.read(0, 100)) == (4, b"0123")
    assert file.append([b"xy"]) == 4
    assert file.read(0, 100) == b"0123xy"


def test_a_file_opened_again_has_what_was_written(files: Files, home: str) -> None:
    write(files, f"{home}/a", b"before")

    file = files.open(f"{home}/a", create=True)

    assert file.size == 6
    assert file.append([b" after"]) == 6
    assert files.read(f"{home}/a") == b"before after"
    assert files.size(f"{home}/a") == 12


def test_syncing_leaves_a_file_as_it_is(files: Files, home: str) -> None:
    file = files.open(f"{home}/a", create=True)
    file.append([b"bytes"])

    file.sync()
    files.sync_dir(home)

    assert (file.size, file.read(0, 9), file.broken) == (5, b"bytes", False)


def test_a_closed_file_refuses_everything_but_to_be_closed(files: Files, home: str) -> None:
    file = files.open(f"{home}/a", create=True)
    file.append([b"bytes"])
    file.close()
    file.close()

    assert errno_of(lambda: file.read(0, 1)) == errno.EBADF
    assert errno_of(lambda: file.append([b"x"])) == errno.EBADF
    assert errno_of(lambda: file.truncate(0)) == errno.EBADF
    assert errno_of(file.sync) == errno.EBADF


def test_many_files_are_open_at_once(files: Files, home: str) -> None:
    opened = [files.open(f"{home}/{n}", create=True) for n in range(50)]
    for turn in (b"first ", b"second"):
        for file in opened:
            file.append([turn])

    assert {file.read(0, 99) for file in opened} == {b"first second"}


def test_a_mapped_file_shows_its_bytes_read_only(files: Files, home: str) -> None:
    write(files, f"{home}/a", bytes(range(256)) * 40)
    write(files, f"{home}/empty", b"")

    view = files.map(f"{home}/a")

    assert view.readonly
    assert (len(view), view[257], bytes(view[-2:])) == (10_240, 1, b"\xfe\xff")
    assert len(files.map(f"{home}/empty")) == 0
    with pytest.raises(FileNotFoundError):
        files.map(f"{home}/b")


def test_a_map_outlives_the_name_of_its_file(files: Files, home: str) -> None:
    write(files, f"{home}/a", b"bytes")
    view = files.map(f"{home}/a")

    files.unlink(f"{home}/a")

    assert bytes(view) == b"bytes"


def test_small_files_are_read_whole(files: Files, home: str) -> None:
    write(files, f"{home}/a", b"all of it")

    assert files.read(f"{home}/a") == b"all of it"
    with pytest.raises(FileNotFoundError):
        files.read(f"{home}/b")


def test_names_come_sorted(files: Files, home: str) -> None:
    for name in ("c", "a", "b"):
        write(files, f"{home}/{name}", b"")
    files.make_dir(f"{home}/aa")

    assert files.names(home) == ["a", "aa", "b", "c"]
    assert files.exists(f"{home}/aa")
    assert files.exists(f"{home}/c")
    assert not files.exists(f"{home}/d")
    with pytest.raises(FileNotFoundError):
        files.names(f"{home}/nowhere")


def test_directories_are_made_with_their_parents_and_once(files: Files, home: str) -> None:
    files.make_dir(f"{home}/x/y/z")
    files.make_dir(f"{home}/x/y/z")

    assert files.names(f"{home}/x/y") == ["z"]
    write(files, f"{home}/f", b"")
    with pytest.raises(FileExistsError):
        files.make_dir(f"{home}/f")
    with pytest.raises(FileExistsError):
        files.make_dir(f"{home}/f/g")


def test_only_empty_directories_are_removed(files: Files, home: str) -> None:
    files.make_dir(f"{home}/d")
    write(files, f"{home}/d/a", b"")

    assert errno_of(lambda: files.remove_dir(f"{home}/d")) == errno.ENOTEMPTY
    files.unlink(f"{home}/d/a")
    files.remove_dir(f"{home}/d")
    assert files.names(home) == []


def test_a_renamed_file_stays_open(files: Files, home: str) -> None:
    file = files.open(f"{home}/a", create=True)
    file.append([b"before "])

    files.rename(f"{home}/a", f"{home}/b")
    file.append([b"after"])

    assert file.path == f"{home}/b"
    assert files.names(home) == ["b"]
    assert files.read(f"{home}/b") == b"before after"


def test_a_renamed_directory_takes_open_files_along(files: Files, home: str) -> None:
    files.make_dir(f"{home}/d/e")
    files.make_dir(f"{home}/dd")
    inside = files.open(f"{home}/d/a", create=True)
    deeper = files.open(f"{home}/d/e/a", create=True)
    beside = files.open(f"{home}/dd/a", create=True)

    files.rename(f"{home}/d", f"{home}/gone")
    # Others are used in between, so that no descriptor is left from before the rename.
    for n in range(3):
        write(files, f"{home}/other{n}", b"x")
    for file in (inside, deeper, beside):
        file.append([b"bytes"])

    assert (inside.path, deeper.path) == (f"{home}/gone/a", f"{home}/gone/e/a")
    assert beside.path == f"{home}/dd/a"
    assert files.read(f"{home}/gone/e/a") == files.read(f"{home}/dd/a") == b"bytes"


def test_a_rename_replaces_a_file_and_who_had_that_open_has_lost_it(files: Files, home: str) -> None:
    old = files.open(f"{home}/a", create=True)
    old.append([b"old"])
    new = files.open(f"{home}/a.tmp", create=True)
    new.append([b"new"])

    files.rename(f"{home}/a.tmp", f"{home}/a")

    assert files.read(f"{home}/a") == new.read(0, 9) == b"new"
    assert errno_of(lambda: old.read(0, 9)) == errno.ENOENT
    old.close()
    assert new.read(0, 9) == b"new"


def test_a_rename_of_what_is_not_there_or_onto_what_is_in_the_way_fails(files: Files, home: str) -> None:
    write(files, f"{home}/a", b"")
    files.make_dir(f"{home}/d")
    write(files, f"{home}/d/b", b"")
    files.make_dir(f"{home}/e")

    assert errno_of(lambda: files.rename(f"{home}/nothing", f"{home}/b")) == errno.ENOENT
    assert errno_of(lambda: files.rename(f"{home}/a", f"{home}/d")) == errno.EISDIR
    assert errno_of(lambda: files.rename(f"{home}/d", f"{home}/a")) == errno.ENOTDIR
    assert errno_of(lambda: files.rename(f"{home}/e", f"{home}/d")) == errno.ENOTEMPTY
    assert files.names(home) == ["a", "d", "e"]


def test_an_unlinked_file_is_lost_to_those_who_had_it_open(files: Files, home: str) -> None:
    file = files.open(f"{home}/a", create=True)
    file.append([b"bytes"])

    files.unlink(f"{home}/a")

    assert files.names(home) == []
    assert errno_of(lambda: file.read(0, 5)) == errno.ENOENT
    with pytest.raises(FileNotFoundError):
        files.unlink(f"{home}/a")


def test_a_new_file_of_an_old_name_has_nothing_of_the_old_one(files: Files, home: str) -> None:
    old = files.open(f"{home}/a", create=True)
    old.append([b"old"])
    files.unlink(f"{home}/a")

    new = files.open(f"{home}/a", create=True)
    new.append([b"n"])
    files.rename(f"{home}/a", f"{home}/b")
    old.close()

    assert (new.size, new.path, files.read(f"{home}/b")) == (1, f"{home}/b", b"n")
    assert errno_of(lambda: old.append([b"x"])) == errno.EBADF


def test_a_disk_knows_when_a_file_was_written_and_what_room_is_left(files: Files, home: str) -> None:
    write(files, f"{home}/a", b"bytes")

    assert files.modified(f"{home}/a") > 1_600_000_000_000
    assert files.free_bytes(home) > 0
