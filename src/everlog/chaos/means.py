"""What this machine has to break things with. What is missing is told, never passed over."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from glob import glob
from pathlib import Path

_PROBE_S = 10.0


class Means(StrEnum):
    """A way to break something."""

    SIGNALS = "signals"
    STRACE = "strace"
    CGROUP_IO = "cgroup io"
    FAKETIME = "libfaketime"


@dataclass(frozen=True, slots=True)
class Probed:
    """Whether a means is there, and the words for it: where it is, or why it cannot be used."""

    there: bool
    detail: str


@cache
def probe(means: Means) -> Probed:
    """Try whether a means works on this machine; the answer is kept."""
    return _PROBES[means]()


def _signals() -> Probed:
    return Probed(
        os.name == "posix", "SIGKILL, SIGSTOP and SIGCONT" if os.name == "posix" else "not a POSIX system"
    )


def _strace() -> Probed:
    """Whether strace is there, may attach to processes of ours, and can delay what they call."""
    program = shutil.which("strace")
    if program is None:
        return Probed(False, "strace is not installed")
    victim = subprocess.Popen(["sleep", "30"])
    try:
        tracer = subprocess.Popen(
            [program, "-f", "-p", str(victim.pid), "-o", os.devnull, "-e", "inject=fsync:delay_enter=1"],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert tracer.stderr is not None
        said = tracer.stderr.readline().strip()
        tracer.terminate()
        tracer.wait(_PROBE_S)
        tracer.stderr.close()
    finally:
        victim.kill()
        victim.wait()
    if "attached" not in said:
        return Probed(False, f"strace cannot attach to processes: {said or 'it says nothing'}")
    return Probed(True, f"{program} delays and fails system calls")


def _cgroup_io() -> Probed:
    root = Path("/sys/fs/cgroup")
    try:
        controllers = (root / "cgroup.controllers").read_text().split()
    except OSError as error:
        return Probed(False, f"no control groups of version 2: {error.strerror}")
    if "io" not in controllers:
        return Probed(
            False, f"the controllers of {root} are {' '.join(controllers) or 'none'}, expected io among them"
        )
    if not os.access(root, os.W_OK):
        return Probed(False, f"{root} is not writable")
    return Probed(True, f"{root} limits writes to a device")


def _faketime() -> Probed:
    for pattern in ("/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib*/faketime/libfaketime.so.1"):
        for found in sorted(glob(pattern)):
            return Probed(True, found)
    return Probed(False, "libfaketime is not installed")


_PROBES: Mapping[Means, Callable[[], Probed]] = {
    Means.SIGNALS: _signals,
    Means.STRACE: _strace,
    Means.CGROUP_IO: _cgroup_io,
    Means.FAKETIME: _faketime,
}
