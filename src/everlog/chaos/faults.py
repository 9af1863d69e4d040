"""Things that are broken from one moment to another, each by the best means that the machine has."""

import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import Protocol

from everlog.chaos.means import Means, probe

_DISK_WRITES = "pwrite64,pwritev,pwritev2"
_SYNCS = "fsync,fdatasync,sync_file_range"
_END_S = 15.0
_RUNS_BETWEEN_PULSES_S = 0.25


class CannotBreak(Exception):
    """This machine has no means to break something so; the words say what is missing."""


class Fault(Protocol):
    """Something that is broken until `end`."""

    @property
    def means(self) -> str:
        """How it was done."""
        ...

    def end(self) -> None:
        """Make it whole again; a process that is gone by now is no error."""
        ...


def slow_disk(pid: int, delay_ms: int, frozen_ms: int) -> Fault:
    """Each write of a process to its files takes longer; without means for that it is frozen, in pulses."""
    found = probe(Means.STRACE)
    if found.there:
        return _Traced(
            pid,
            f"{_DISK_WRITES},{_SYNCS}",
            f"delay_enter={delay_ms * 1000}",
            f"writes take {delay_ms} ms more",
        )
    if probe(Means.SIGNALS).there:
        return _Pulsed(pid, frozen_ms / 1000)
    raise CannotBreak(f"no means to slow a disk: {found.detail}")


def full_disk(pid: int) -> Fault:
    """Writes of a process to its files fail for want of space."""
    return _failing(pid, _DISK_WRITES, "ENOSPC")


def failing_fsync(pid: int) -> Fault:
    """A process cannot sync its files."""
    return _failing(pid, _SYNCS, "EIO")


def _failing(pid: int, calls: str, error: str) -> Fault:
    found = probe(Means.STRACE)
    if not found.there:
        raise CannotBreak(f"no means to let {calls} fail: {found.detail}")
    return _Traced(pid, calls, f"error={error}", f"{calls} fail with {error}")


def pause(pid: int) -> Fault:
    """A process is frozen."""
    if not probe(Means.SIGNALS).there:
        raise CannotBreak(f"no means to freeze a process: {probe(Means.SIGNALS).detail}")
    return _Paused(pid)


class FakeClock:
    """What makes a process believe in another time of day, which can be changed while it runs."""

    def __init__(self, directory: Path, node: int) -> None:
        found = probe(Means.FAKETIME)
        if not found.there:
            raise CannotBreak(f"no means to set a clock: {found.detail}")
        self._library = found.detail
        self._file = directory / f"clock-{node}"
        self.ahead_s = 0.0
        self.set_ahead(0.0)

    def set_ahead(self, seconds: float) -> None:
        """How far the time of day is off from now on."""
        self.ahead_s = seconds
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+g}")
        new.replace(self._file)

    def environment(self) -> dict[str, str]:
        """What the process must be started with. Clocks that only ever go forward are left alone."""
        return {
            "LD_PRELOAD": self._library,
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }


class _Traced:
    """System calls of a process, all of its threads, are tampered with by strace."""

    def __init__(self, pid: int, calls: str, injected: str, words: str) -> None:
        program = shutil.which("strace")
        assert program is not None, "strace was probed"
        self.means = f"strace: {words}"
        self._tracer = subprocess.Popen(
            [
                program, "-f", "--seccomp-bpf", "-p", str(pid), "-o", os.devnull,
                "-e", f"trace={calls}", "-e", f"inject={calls}:{injected}",
            ],
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        assert self._tracer.stderr is not None
        for said in self._tracer.stderr:
            if "attached" in said:
                return
            if "seccomp" not in said:
                break
        self.end()
        raise CannotBreak(f"strace cannot attach to process {pid}")

    def end(self) -> None:
        """Let go of the process."""
        self._tracer.terminate()
        try:
            self._tracer.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._tracer.kill()
            self._tracer.wait()
        if self._tracer.stderr is not None:
            self._tracer.stderr.close()


class _Pulsed:
    """A process is frozen most of the time: where nothing better is there, a slow disk looks like this."""

    def __init__(self, pid: int, frozen_s: float) -> None:
        self.means = f"SIGSTOP: the process is frozen for {frozen_s:g} s again and again"
        self._pid = pid
        self._frozen_s = frozen_s
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._pulse, name=f"pulse-{pid}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Let the process run on."""
        self._ending.set()
        self._thread.join(_END_S)
        _send(self._pid, signal.SIGCONT)

    def _pulse(self) -> None:
        while not self._ending.is_set():
            _send(self._pid, signal.SIGSTOP)
            self._ending.wait(self._frozen_s)
            _send(self._pid, signal.SIGCONT)
            self._ending.wait(_RUNS_BETWEEN_PULSES_S)


class _Paused:
    def __init__(self, pid: int) -> None:
        self.means = "SIGSTOP"
        self._pid = pid
        _send(pid, signal.SIGSTOP)

    def end(self) -> None:
        """Let the process run on."""
        _send(self._pid, signal.SIGCONT)


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
