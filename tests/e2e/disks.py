"""Disks that are too small or fail, for real processes; a test that cannot have one skips and says why."""

import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(path: Path, size_bytes: int) -> Generator[Path]:
    """A file system in memory with room for so many bytes; skips the test where it cannot be mounted."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "everlog-test", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system here: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@contextmanager
def failing_calls(pid: int, calls: str, errno_name: str) -> Generator[None]:
    """Make system calls of a process and its threads fail, for the length of a `with`.

    `calls` is a list for strace, such as `pwrite64,pwritev`. Skips the test where strace is missing or
    may not look into processes.
    """
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed: no way to make system calls fail")
    tracer = subprocess.Popen(
        [
            strace, "-f", "-p", str(pid), "-o", "/dev/null",
            "-e", f"trace={calls}", "-e", f"inject={calls}:error={errno_name}",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert tracer.stderr is not None
    said = tracer.stderr.readline()
    if "attached" not in said:
        tracer.kill()
        tracer.wait()
        pytest.skip(f"strace cannot be used here: {said.strip()}")
    try:
        yield
    finally:
        tracer.terminate()
        tracer.wait(10)
        tracer.stderr.close()
