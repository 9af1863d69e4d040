"""What only the real disk has: descriptors that are few, pins, modes, links, errors from the kernel (L11)."""

import errno
import mmap
import os
import resource
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from everlog.broker.handlers.produce_run import lanes_are_built
from everlog.edge import mapping
from everlog.edge.descriptors import limit_open_files
from everlog.edge.disk import RealFiles
from everlog.edge.reserve import reserve
from everlog.ports.files import Buffer


def open_paths(directory: Path) -> list[str]:
    """Where the descriptors of this process lead that lead below the directory."""
    paths: list[str] = []
    for name in os.listdir("/proc/self/fd"):
        try:
            paths.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue  # The descriptor that listed the directory.
    return [path for path in paths if path.startswith(f"{directory}/")]


def descriptors_below(directory: Path) -> int:
    """How many descriptors of this process lead to files below the directory."""
    return len(open_paths(directory))


def test_descriptors_stay_below_the_setting(tmp_path: Path) -> None:
    files = RealFiles(max_open_files=10)
    opened = [files.open(str(tmp_path / str(n)), create=True) for n in range(300)]

    for file in opened:
        file.append([b"bytes"])

    assert descriptors_below(tmp_path) == files.open_descriptors == 10
    assert all(file.read(0, 9) == b"bytes" for file in opened)
    assert descriptors_below(tmp_path) == 10


def test_opening_a_file_that_is_there_takes_no_descriptor(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"bytes")
    files = RealFiles(max_open_files=10)

    file = files.open(str(tmp_path / "a"))

    assert (file.size, descriptors_below(tmp_path)) == (5, 0)


def test_what_is_used_often_keeps_its_descriptor(tmp_path: Path) -> None:
    files = RealFiles(max_open_files=3)
    busy = files.open(str(tmp_path / "busy"), create=True)
    number = busy.pin()
    busy.unpin()

    for n in range(20):
        files.open(str(tmp_path / str(n)), create=True)
        busy.append([b"x"])

    assert busy.pin() == number
    busy.unpin()


def test_a_pinned_descriptor_is_not_given_away_and_outlives_the_file(tmp_path: Path) -> None:
    files = RealFiles(max_open_files=2)
    file = files.open(str(tmp_path / "a"), create=True)
    file.append([b"bytes"])

    with file.pinned() as number:
        others = [files.open(str(tmp_path / str(n)), create=True) for n in range(10)]
        for other in others:
            other.append([b"other"])
        files.rename(str(tmp_path / "a"), str(tmp_path / "b"))
        files.unlink(str(tmp_path / "b"))
        assert os.pread(number, 9, 0) == file.read(0, 9) == b"bytes"
        assert file.pinned_descriptor == number

    with pytest.raises(FileNotFoundError):
        file.pin()
    assert files.open_descriptors <= 2
    assert not os.path.exists(f"/proc/self/fd/{number}") or "deleted" not in os.readlink(
        f"/proc/self/fd/{number}"
    )


def test_a_pin_outlives_the_closing_of_the_file(tmp_path: Path) -> None:
    files = RealFiles()
    file = files.open(str(tmp_path / "a"), create=True)
    file.append([b"bytes"])
    number = file.pin()
    assert file.pin() == number

    file.close()
    file.unpin()
    assert os.pread(number, 9, 0) == b"bytes"
    file.unpin()

    assert descriptors_below(tmp_path) == files.open_descriptors == 0


def test_more_pins_than_the_setting_allows_are_granted_and_given_back(tmp_path: Path) -> None:
    files = RealFiles(max_open_files=2)
    opened = [files.open(str(tmp_path / str(n)), create=True) for n in range(5)]
    for file in opened:
        file.pin()
    assert files.open_descriptors == 5

    for file in opened:
        file.unpin()
    files.open(str(tmp_path / "more"), create=True)

    assert files.open_descriptors == 2


def test_a_file_that_is_held_takes_no_descriptor_until_it_is_removed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"bytes")
    files = RealFiles(max_open_files=8)
    file = files.open(str(tmp_path / "a"))

    file.hold()
    file.hold()
    assert descriptors_below(tmp_path) == 0
    files.rename(str(tmp_path / "a"), str(tmp_path / "b"))
    files.unlink(str(tmp_path / "b"))

    assert file.read(0, 9) == b"bytes"
    file.release()
    assert file.read(0, 9) == b"bytes"
    file.release()
    with pytest.raises(FileNotFoundError):
        file.read(0, 9)
    assert files.open_descriptors == descriptors_below(tmp_path) == 0


def test_a_file_that_is_held_outlives_its_closing_and_what_replaces_it(tmp_path: Path) -> None:
    for name in ("closed", "replaced", "other"):
        (tmp_path / name).write_bytes(name.encode())
    files = RealFiles(max_open_files=8)
    closed, replaced = files.open(str(tmp_path / "closed")), files.open(str(tmp_path / "replaced"))
    closed.hold()
    replaced.hold()

    closed.close()
    files.rename(str(tmp_path / "other"), str(tmp_path / "replaced"))
    replaced.close()

    assert [closed.read(0, 99), replaced.read(0, 99)] == [b"closed", b"replaced"]
    closed.release()
    replaced.release()
    assert files.open_descriptors == descriptors_below(tmp_path) == 0


def test_files_that_are_gone_and_held_take_a_quarter_of_the_descriptors_at_most(tmp_path: Path) -> None:
    files = RealFiles(max_open_files=8)
    held = [files.open(str(tmp_path / str(n)), create=True) for n in range(20)]
    for n, file in enumerate(held):
        file.append([b"bytes %d" % n])
        file.hold()

    for n, file in enumerate(held):
        files.unlink(str(tmp_path / str(n)))
        # Another of the same name must not be taken for it when it is closed.
        (tmp_path / str(n)).write_bytes(b"others %d" % n)
        file.close()

    assert files.open_descriptors == 2
    assert [file.read(0, 99) for file in held[:2]] == [b"bytes 0", b"bytes 1"]
    for file in held[2:]:
        with pytest.raises(OSError, match="Bad file descriptor"):
            file.read(0, 99)
    for file in held:
        file.release()
    assert files.open_descriptors == 0


def test_a_file_that_could_not_be_removed_while_it_is_held_is_an_ordinary_one_again(tmp_path: Path) -> None:
    files = RealFiles(max_open_files=4)
    file = files.open(str(tmp_path / "a"), create=True)
    file.append([b"bytes"])
    file.hold()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()

    with pytest.raises(OSError, match="directory"):
        files.rename(str(tmp_path / "full"), str(tmp_path / "a"))
    for n in range(10):
        files.open(str(tmp_path / f"other {n}"), create=True)

    assert files.open_descriptors == 4
    assert file.read(0, 9) == b"bytes"
    file.release()
    assert file.read(0, 9) == b"bytes"


def test_a_process_out_of_descriptors_gives_back_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = RealFiles(max_open_files=100)
    for n in range(10):
        files.open(str(tmp_path / str(n)), create=True)
    really_open = os.open

    def open_short_of_descriptors(path: str, flags: int, mode: int = 0o777) -> int:
        if files.open_descriptors > 5:
            raise OSError(errno.EMFILE, "Too many open files")
        return really_open(path, flags, mode)

    monkeypatch.setattr(os, "open", open_short_of_descriptors)
    files.open(str(tmp_path / "more"), create=True).append([b"bytes"])

    assert (tmp_path / "more").read_bytes() == b"bytes"
    assert files.open_descriptors == 6


def test_files_are_for_their_owner_and_links_are_not_followed(tmp_path: Path) -> None:
    files = RealFiles()
    files.make_dir(str(tmp_path / "x" / "y"))
    files.open(str(tmp_path / "x" / "a"), create=True)
    os.symlink("/etc/passwd", tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")

    assert [oct((tmp_path / name).stat().st_mode & 0o777) for name in ("x", "x/y", "x/a")] == [
        "0o700",
        "0o700",
        "0o600",
    ]
    for call in (files.open, files.map, files.read, files.size):
        with pytest.raises(OSError) as caught:
            call(str(tmp_path / "link"))
        assert caught.value.errno == errno.ELOOP
    with pytest.raises(OSError) as caught:
        files.open(str(tmp_path / "pipe"))
    assert caught.value.errno == errno.EINVAL


def test_descriptors_are_not_inherited(tmp_path: Path) -> None:
    file = RealFiles().open(str(tmp_path / "a"), create=True)

    with file.pinned() as number:
        assert not os.get_inheritable(number)


def test_a_short_write_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealFiles().open(str(tmp_path / "a"), create=True)
    really_pwrite, really_pwritev = os.pwrite, os.pwritev

    def pwrite_little(number: int, data: Buffer, position: int) -> int:
        return really_pwrite(number, data[:3], position)

    def pwritev_little(number: int, buffers: Sequence[Buffer], position: int) -> int:
        return really_pwritev(number, [b"".join(buffers)[:5]], position)

    monkeypatch.setattr(os, "pwrite", pwrite_little)
    monkeypatch.setattr(os, "pwritev", pwritev_little)
    file.append([b"one buffer"])
    file.append([b" and", b"", b" many", b" of them, which are longer"])

    assert (tmp_path / "a").read_bytes() == b"one buffer and many of them, which are longer"
    assert file.size == 45


def test_a_write_that_fails_half_way_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealFiles().open(str(tmp_path / "a"), create=True)
    file.append([b"kept"])
    really_pwrite = os.pwrite

    def pwrite_little(number: int, data: Buffer, position: int) -> int:
        return really_pwrite(number, data[:2], position)

    def pwritev_full(number: int, buffers: Sequence[Buffer], position: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite_little)
        patch.setattr(os, "pwritev", pwritev_full)
        with pytest.raises(OSError, match="No space left"):
            file.append([b"torn"])

    assert (tmp_path / "a").read_bytes() == b"kept"
    assert not file.broken
    assert file.append([b", more"]) == 4


def test_a_write_that_cannot_be_taken_back_breaks_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = RealFiles()
    file = files.open(str(tmp_path / "a"), create=True)
    file.append([b"kept"])
    really_pwrite = os.pwrite

    def pwrite_torn(number: int, data: Buffer, position: int) -> int:
        really_pwrite(number, data[:2], position)
        raise OSError(errno.EIO, "Input/output error")

    def ftruncate_failing(number: int, size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite_torn)
        patch.setattr(os, "ftruncate", ftruncate_failing)
        with pytest.raises(OSError, match="Input/output"):
            file.append([b"torn"])

    assert file.broken
    assert (file.size, file.read(0, 99)) == (4, b"kept")
    with pytest.raises(OSError) as caught:
        file.append([b"x"])
    assert caught.value.errno == errno.EIO
    # Whoever opens the file anew sees what is there, and decides.
    assert files.open(str(tmp_path / "a")).read(0, 99) == b"keptto"
    file.rewrite(0, [b"kept"])
    assert (tmp_path / "a").read_bytes() == b"kept"


def test_a_file_whose_sync_failed_once_is_broken_until_its_bytes_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RealFiles().open(str(tmp_path / "a"), create=True)
    file.append([b"bytes"])

    def sync_failing(number: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("everlog.edge.disk._sync_data", sync_failing)
        with pytest.raises(OSError, match="Input/output"):
            file.sync()

    assert file.broken
    assert file.read(0, 9) == b"bytes"
    for call in (file.sync, lambda: file.append([b"x"])):
        with pytest.raises(OSError) as caught:
            call()
        assert caught.value.errno == errno.EIO
    with monkeypatch.context() as patch:
        patch.setattr("everlog.edge.disk._sync_data", sync_failing)
        with pytest.raises(OSError, match="Input/output"):
            file.rewrite(2, [b"tes"])
    assert file.broken
    file.rewrite(2, [b"tes"])
    assert not file.broken
    file.append([b" and more"])
    assert (tmp_path / "a").read_bytes() == b"bytes and more"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write what is read-only")
def test_a_file_that_cannot_be_written_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"bytes")
    (tmp_path / "a").chmod(0o400)
    file = RealFiles().open(str(tmp_path / "a"))

    assert file.read(0, 9) == b"bytes"
    with pytest.raises(PermissionError):
        file.append([b"x"])


def test_a_disk_made_read_only_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"bytes")
    file = RealFiles().open(str(tmp_path / "a"))
    really_open = os.open

    def open_read_only(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_RDWR:
            raise OSError(errno.EROFS, "Read-only file system")
        return really_open(path, flags, mode)

    monkeypatch.setattr(os, "open", open_read_only)

    assert file.read(0, 9) == b"bytes"
    for call in (lambda: file.append([b"x"]), lambda: file.truncate(1)):
        with pytest.raises(OSError) as caught:
            call()
        assert caught.value.errno == errno.EROFS
    assert not file.broken


def test_a_file_that_could_not_be_removed_is_still_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = RealFiles()
    file = files.open(str(tmp_path / "a"), create=True)
    file.append([b"bytes"])

    def unlink_failing(path: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", unlink_failing)
        with pytest.raises(OSError, match="Input/output"):
            files.unlink(str(tmp_path / "a"))

    assert file.read(0, 9) == b"bytes"
    files.rename(str(tmp_path / "a"), str(tmp_path / "b"))
    assert file.path == str(tmp_path / "b")


def test_mapped_files_cost_no_descriptors_and_are_unmapped_with_their_last_view(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"index" * 4000)
    files = RealFiles()

    def mappings() -> int:
        return Path("/proc/self/maps").read_text().count(str(tmp_path / "a"))

    views = [files.map(str(tmp_path / "a")) for _ in range(100)]

    assert descriptors_below(tmp_path) == 0
    assert mappings() > 0
    part = views[0][5:10]
    del views
    assert bytes(part) == b"index"
    del part
    assert mappings() == 0


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="mmap can do without a descriptor by itself")
def test_a_mapping_the_kernel_refuses_is_an_os_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "PROT_READ", mmap.PROT_READ | mmap.PROT_WRITE)
    number = os.open("/etc/passwd", os.O_RDONLY)
    try:
        with pytest.raises(OSError) as caught:
            mapping.map_file(number, 10)
    finally:
        os.close(number)
    assert caught.value.errno == errno.EACCES


def test_syncs_on_other_threads_do_not_disturb_appends_however_few_the_descriptors(tmp_path: Path) -> None:
    files = RealFiles(max_open_files=2)
    opened = [files.open(str(tmp_path / str(n)), create=True) for n in range(8)]
    problems: list[BaseException] = []
    stop = threading.Event()

    def sync_all() -> None:
        try:
            while not stop.is_set():
                for file in opened:
                    file.sync()
                    assert file.read(0, 4) in (b"", b"%04d" % opened.index(file))
        except BaseException as error:  # noqa: BLE001  # handed to the test's own thread
            problems.append(error)

    threads = [threading.Thread(target=sync_all) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(400):
        for n, file in enumerate(opened):
            file.append([b"%04d" % n])
    stop.set()
    for thread in threads:
        thread.join()

    assert problems == []
    for n in range(8):
        assert (tmp_path / str(n)).read_bytes() == b"%04d" % n * 400
    assert descriptors_below(tmp_path) <= 2


def test_the_limit_of_open_files_is_raised_as_far_as_the_system_allows() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    hard = before[1]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        assert limit_open_files(300, others=100) == 300
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 400
        if hard != resource.RLIM_INFINITY:
            assert limit_open_files(hard, others=100) == hard - 100
            assert limit_open_files(hard, others=2 * hard) == hard // 2
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_file_that_grows_has_room_set_aside_and_gives_it_back(tmp_path: Path) -> None:
    files = RealFiles()
    path = str(tmp_path / "00000000000000000000.log")
    file = files.open(path, create=True)
    piece = bytes(1 << 20)
    for _ in range(8):
        file.append((piece,))
    size = file.size
    with file.pinned() as number:
        if not reserve(number, size, 1 << 20):
            pytest.skip("the file system of the temporary directory sets no room aside")

    assert os.stat(path).st_size == size
    assert os.stat(path).st_blocks * 512 > size

    file.trim()

    assert os.stat(path).st_size == size
    assert os.stat(path).st_blocks * 512 < size + (1 << 20)
    file.append((b"more",))
    assert file.read(size, 100) == b"more"


def test_a_small_file_has_no_room_set_aside(tmp_path: Path) -> None:
    path = str(tmp_path / "00000000000000000000.log")
    file = RealFiles().open(path, create=True)

    for _ in range(100):
        file.append((bytes(1024),))

    assert os.stat(path).st_blocks * 512 <= file.size + 64 * 1024


needs_lending = pytest.mark.skipif(
    not lanes_are_built(), reason="the kernels are not built, or EVERLOG_PURE_PYTHON is set"
)


@needs_lending
def test_a_file_that_is_lent_keeps_its_descriptor_until_it_is_taken_back(tmp_path: Path) -> None:
    files = RealFiles(max_open_files=2)
    lent = files.open(str(tmp_path / "lent"), create=True)
    assert lent.lend() is not None
    assert lent.lend() is not None  # Twice is once.

    others = [files.open(str(tmp_path / f"other-{n}"), create=True) for n in range(3)]
    for other in others:
        other.append([b"bytes"])
    assert descriptors_below(tmp_path) == 2  # Others came and went beside it.

    lent.take_back()
    lent.take_back()
    others[0].append([b"bytes"])
    others[1].append([b"bytes"])
    assert not [one for one in open_paths(tmp_path) if one.endswith("lent")]
    lent.close()
    assert descriptors_below(tmp_path) == 2


@needs_lending
def test_the_half_of_the_descriptors_is_lent_at_most(tmp_path: Path) -> None:
    files = RealFiles(max_open_files=8)
    opened = [files.open(str(tmp_path / str(n)), create=True) for n in range(20)]

    lent = [file.lend() is not None for file in opened]

    assert lent == [True] * 4 + [False] * 16
    assert descriptors_below(tmp_path) == files.open_descriptors == 8
    opened[0].take_back()
    assert opened[10].lend() is not None
    assert opened[11].lend() is None


@needs_lending
def test_removing_and_closing_a_file_that_is_lent_frees_it(tmp_path: Path) -> None:
    files = RealFiles()
    lent = files.open(str(tmp_path / "lent"), create=True)
    assert lent.lend() is not None

    files.unlink(str(tmp_path / "lent"))
    lent.close()

    assert descriptors_below(tmp_path) == 0


@needs_lending
def test_a_broken_file_is_not_lent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealFiles().open(str(tmp_path / "a"), create=True)

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "the disk has failed")

    monkeypatch.setattr("everlog.edge.disk._sync_data", fail)
    with pytest.raises(OSError, match="failed"):
        file.sync()

    assert file.lend() is None
