"""One sample in a process of its own: `python -m bench.clients.child JOB`; job and outcome are JSON."""

import json
import subprocess
import sys
from pathlib import Path

from bench.clients.jobs import Job, Outcome
from bench.clients.readers import READERS
from bench.clients.senders import SENDERS
from bench.clients.watch import Stopwatch

_ROOT = Path(__file__).resolve().parents[2]
_LIMIT_S = 300.0


def run(job: Job) -> Outcome:
    """Run a job in a process; RuntimeError with what it said if it failed or its counts are not right."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.clients.child", json.dumps(job.as_dict())],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{job.program}: {done.stderr.strip()[-1500:]}")
    return Outcome(**json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Do the job and print the outcome."""
    job = Job(**json.loads(sys.argv[1]))
    watch = Stopwatch()
    if job.program in SENDERS:
        records = SENDERS[job.program](job, watch)
        if records != job.count:
            sys.exit(f"{records} records were delivered, expected {job.count}")
    else:
        records, size = READERS[job.program](job, watch)
        if records < job.count or size != records * job.size:
            sys.exit(f"{records} records with {size} bytes were read, expected {job.count} of {job.size}")
    print(json.dumps({"records": records, "seconds": watch.seconds, "cpu_s": watch.cpu_s}))


if __name__ == "__main__":
    main()
