"""The child process: a job on the first line of stdin, `ready`, `go` on the second line, the outcome."""

import gc
import json
import sys
import time
from typing import Protocol, assert_never

from bench.loader import jobs


class Load(Protocol):
    """Something prepared to run once."""

    def run(self) -> jobs.Outcome:
        """Carry the load out and return what was measured."""
        ...


def prepare(job: jobs.Job) -> Load:
    """Do what a job needs before it is measured; each child imports only the modules of its own load."""
    match job:
        case jobs.ProduceJob():
            from bench.loader.produce import ProduceLoad

            return ProduceLoad(job)
        case jobs.ConsumeJob():
            from bench.loader.consume import ConsumeLoad

            return ConsumeLoad(job)
        case jobs.AckLatencyJob():
            from bench.loader.latency import AckLatencyLoad

            return AckLatencyLoad(job)
        case jobs.EndToEndJob():
            from bench.loader.latency import EndToEndLoad

            return EndToEndLoad(job)
        case jobs.ClientProduceJob():
            from bench.loader.clients import ClientProduceLoad

            return ClientProduceLoad(job)
        case jobs.ClientConsumeJob():
            from bench.loader.clients import ClientConsumeLoad

            return ClientConsumeLoad(job)
        case _:
            assert_never(job)


def main() -> None:
    """Run one job."""
    load = prepare(jobs.from_line(sys.stdin.readline()))
    gc.collect()
    gc.disable()
    print("ready", flush=True)
    if sys.stdin.readline().strip() != "go":
        return
    began = time.process_time()
    outcome = load.run()
    outcome["loader_cpu_s"] = time.process_time() - began
    print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    main()
