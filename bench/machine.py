"""What must be known of the machine to trust a figure made on it.

CPU seconds are read from the kernel's clock of a process, which counts in nanoseconds and keeps what ended
threads used. `/proc/stat` gives what all others used meanwhile: a run beside a busy neighbour is told by
its foreign CPU.
"""

import os
import platform
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_CPUCLOCK_SCHED = 2
_BUSY_FIELDS = (0, 1, 2, 5, 6, 7)  # user, nice, system, irq, softirq, steal
QUIET_CORES = 0.25
"""What others may use of the machine for a sample to count as taken in quiet."""
QUIET_TRIES = 5
"""How often a sample is taken at the most in the hope of quiet."""
_LOOK_S = 0.4
_WAKES_A_LOOK = 50

Taken = TypeVar("Taken")


def process_cpu_s(pid: int) -> float:
    """CPU seconds that a process has used in all of its threads, ended ones included."""
    return time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED)


def process_tree(pid: int) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # It has ended since it was listed.
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    tree = [pid]
    for member in tree:
        tree += children.get(member, [])
    return tree


def status_mb(pid: int, field: str) -> float:
    """A memory figure of `/proc/<pid>/status`, such as VmRSS or VmHWM, in MB of 10^6 bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def machine_cpu_s() -> float:
    """CPU seconds that everything on the machine has used, time stolen by the hypervisor included."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return sum(fields[index] for index in _BUSY_FIELDS) / _TICKS_PER_S


class ForeignCpu:
    """How many cores others used while we measured: all that was used less what we and our children did."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids
        self._began = time.perf_counter()
        self._before = self._used()

    def cores(self, loader_cpu_s: float) -> float:
        """The mean number of cores since the beginning; `loader_cpu_s` is what our loaders say they used."""
        seconds = time.perf_counter() - self._began
        return max(0.0, (self._used() - self._before - loader_cpu_s) / seconds)

    def _used(self) -> float:
        return machine_cpu_s() - time.process_time() - sum(process_cpu_s(pid) for pid in self._pids)


def wait_quiet(pids: list[int], limit_cores: float, timeout_s: float) -> float:
    """Wait until others use less than `limit_cores`; return what they used last, quiet or not."""
    deadline = time.monotonic() + timeout_s
    while True:
        cores = _foreign_while_waking(pids)
        if cores < limit_cores or time.monotonic() > deadline:
            return cores


def _foreign_while_waking(pids: list[int]) -> float:
    """How many cores others use while two processes wake each other.

    A hypervisor whose machine is full lets a core wait that has slept, and nobody who sleeps himself can see
    it; nor does one who never sleeps.
    """
    with subprocess.Popen(["cat"], bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as echo:
        assert echo.stdin is not None
        assert echo.stdout is not None
        foreign = ForeignCpu([*pids, echo.pid])
        until = time.perf_counter() + _LOOK_S
        while time.perf_counter() < until:
            for _ in range(_WAKES_A_LOOK):
                echo.stdin.write(b"x")
                echo.stdout.read(1)
        cores = foreign.cores(0.0)
        echo.stdin.close()
    return cores


def in_quiet(take: Callable[[], Taken], foreign_cores: Callable[[Taken], float]) -> Taken:
    """Take a sample until others left the machine to us; the quietest if they never do."""
    samples: list[Taken] = []
    while len(samples) < QUIET_TRIES:
        samples.append(take())
        if foreign_cores(samples[-1]) < QUIET_CORES:
            break
    return min(samples, key=foreign_cores)


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine in words, for the head of a report."""

    cpu: str
    cores: int
    memory_gb: float
    kernel: str
    python: str


def this_machine() -> Machine:
    """Describe the machine we run on."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    return Machine(
        cpu=cpu,
        cores=len(os.sched_getaffinity(0)),
        memory_gb=round(memory, 1),
        kernel=platform.release(),
        python=platform.python_version(),
    )
