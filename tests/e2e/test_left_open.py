"""A program that ends without closing its clients and its cluster ends as it meant to."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import ctypes, sys
import everlog

# The process goes on for a second after the interpreter is gone: whatever still runs would come back to it.
libc = ctypes.CDLL(None)
libc.on_exit(libc.sleep, None)

cluster = everlog.Cluster({cluster})
cluster.start()
producer = everlog.Producer(cluster.bootstrap_servers)
producer.send("left", b"open").result(10)
at_the_start = dict(auto_offset_reset="earliest", fetch_max_wait_ms=100)
consumer = everlog.Consumer(cluster.bootstrap_servers, group_id="left", topics=["left"], **at_the_start)
print(len(consumer.poll(10)), everlog.Admin(cluster.bootstrap_servers).list_topics())
{last}
"""


def ended(last: str, cluster: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("{last}", last).replace("{cluster}", cluster)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_what_is_left_open_at_the_end_of_a_program_ends_with_it() -> None:
    program = ended("sys.exit(1)")

    assert (program.returncode, program.stdout, program.stderr) == (1, "1 ['left']\n", "")


def test_a_forked_process_that_ends_leaves_its_parents_clients_alone(tmp_path: Path) -> None:
    program = ended(
        "import os\n"
        "if (child := os.fork()) == 0:\n"
        "    sys.exit(0)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        'print(producer.send("left", b"still").result(10).offset)\n'
        "sys.exit(1)",
        f"processes=True, directory={str(tmp_path)!r}",
    )

    assert (program.returncode, program.stdout, program.stderr) == (1, "1 ['left']\n0\n1\n", "")
