"""Files of the real disk that compiled code appends to, and what a failed write leaves in them (L4, L10)."""

import resource
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from everlog.broker.handlers.produce_run import lanes_are_built
from everlog.broker.replicas import Replica
from everlog.edge.disk import RealFiles
from everlog.log.partition import Origin, PartitionLog, World
from everlog.log.recovery import Opening
from everlog.log.settings import LogSettings
from everlog.model.errors import StorageError
from everlog.model.ids import LeaderEpoch, Offset
from everlog.sim.chance import SimRandom
from everlog.sim.clock import SimClock
from tests.unit.broker.test_produce_run import Request
from tests.unit.log.builders import NOON, ORDERS, a_batch, values, values_of

pytestmark = pytest.mark.skipif(
    not lanes_are_built(), reason="the kernels are not built, or EVERLOG_PURE_PYTHON is set"
)


def _take(log: PartitionLog, stream: bytes) -> int:
    """Give requests to the log's lane, opened anew; returns the bytes of those that were appended."""
    from everlog.broker import _lanes

    assert log.enter_lane(_lanes.Lane, LeaderEpoch(0), -1)
    # What compiled code looks at of a replica, which a whole broker would have to make.
    replica = cast(
        Replica,
        SimpleNamespace(
            leads=True, internal=False, log=log, leading=None, min_insync=1, leader_epoch=0, watchers={}
        ),
    )
    data = memoryview(bytearray(stream))
    return _lanes.take({"orders": {0: replica}}, {}, data, 0, len(data), NOON)[0]


def test_what_a_failed_write_leaves_behind_the_end_is_gone_when_the_segment_is_sealed(tmp_path: Path) -> None:
    world = World(RealFiles(), SimClock(), SimRandom(7))
    log = PartitionLog(world, str(tmp_path), ORDERS, LogSettings(), Opening())
    log.append(a_batch(), LeaderEpoch(0), NOON, Origin.CLIENT)
    requests = [Request(bytes(a_batch(values(10)).raw)).frame(n, {}) for n in range(4)]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (log.size + 700, hard))
    try:
        assert _take(log, b"".join(requests)) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.append(a_batch([b"last"]), LeaderEpoch(0), NOON, Origin.CLIENT)
    log.roll()

    sealed = log.segments[0]
    assert Path(sealed.file.path).stat().st_size == sealed.size
    plan = log.closing_plan()
    assert plan is not None
    plan.run()
    end = log.end_offset
    log.abandon()
    again = PartitionLog(world, str(tmp_path), ORDERS, LogSettings(), Opening(True, Offset(end)))
    assert values_of(again) == [b"value", b"last"]


def test_what_a_failed_write_leaves_behind_the_end_is_not_found_after_a_crash(tmp_path: Path) -> None:
    world = World(RealFiles(), SimClock(), SimRandom(7))
    log = PartitionLog(world, str(tmp_path), ORDERS, LogSettings(), Opening())
    log.append(a_batch(), LeaderEpoch(0), NOON, Origin.CLIENT)
    batches = [a_batch([tag]) for tag in (b"0", b"1", b"2", b"3")]
    size = len(batches[0].raw)
    requests = [Request(bytes(batch.raw)).frame(n, {}) for n, batch in enumerate(batches)]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    # The disk takes all but the end of the last one. Then somebody else is quicker than who sent the second.
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.size + 4 * size - 1, hard))
    try:
        assert _take(log, b"".join(requests)) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.append(batches[0], LeaderEpoch(0), NOON, Origin.CLIENT)
    log.append(a_batch([b"x"]), LeaderEpoch(0), NOON, Origin.CLIENT)

    killed = tmp_path / "killed"
    killed.mkdir()
    shutil.copy(log.segments[0].file.path, killed)
    again = PartitionLog(world, str(killed), ORDERS, LogSettings(), Opening())
    assert values_of(again) == [b"value", b"0", b"x"]


def test_a_file_that_cannot_be_opened_has_no_lane(tmp_path: Path) -> None:
    files = RealFiles(max_open_files=2)
    world = World(files, SimClock(), SimRandom(7))
    log = PartitionLog(world, str(tmp_path), ORDERS, LogSettings(), Opening())
    log.append(a_batch(), LeaderEpoch(0), NOON, Origin.CLIENT)
    for n in range(2):  # They take its descriptor.
        files.open(str(tmp_path / str(n)), create=True).append([b"bytes"])
    Path(log.segments[0].file.path).rename(tmp_path / "elsewhere")

    from everlog.broker import _lanes

    assert not log.enter_lane(_lanes.Lane, LeaderEpoch(0), -1)
    with pytest.raises(StorageError, match="No such file"):
        log.append(a_batch(), LeaderEpoch(0), NOON, Origin.CLIENT)
