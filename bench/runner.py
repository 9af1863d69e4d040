"""Takes the samples: the brokers in turn, each on a quiet machine, each repeat the same way."""

import socket
import sys
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from bench.brokers import Broker, Kind
from bench.loader.jobs import ConsumeJob, ProduceJob
from bench.machine import QUIET_CORES, ForeignCpu, in_quiet, wait_quiet
from bench.memory import BackedMemory
from bench.samples import Results, Sample
from bench.scenarios.scenario import Scenario
from bench.stage import Plan, Stage

_FAILURES = (RuntimeError, OSError, ValueError)


@dataclass(frozen=True, slots=True)
class Course:
    """What is to be run."""

    scenarios: tuple[Scenario, ...]
    kinds: tuple[Kind, ...]
    repeats: int
    plan: Plan
    quiet_timeout_s: float
    directory: Path


def run(course: Course, results: Results) -> None:
    """Take every sample of a course, interleaved: A, B, A, B. Samples and failures are added to `results`."""
    for scenario in course.scenarios:
        if scenario.fresh:
            _repeat(course, scenario, results, {})
    shared = tuple(scenario for scenario in course.scenarios if not scenario.fresh)
    if not shared:
        return
    with ExitStack() as stack:
        _say("touching memory")
        stack.enter_context(closing(BackedMemory()))
        warm: dict[str, Broker] = {}
        for kind in course.kinds:
            broker = warm[kind.name] = stack.enter_context(_launch(course, kind))
            broker.wait_listening()
            _say(f"warming {kind.title} up")
            with Stage(broker, course.plan) as stage:
                _warm_up(stage)
        for scenario in shared:
            _repeat(course, scenario, results, warm)


def _repeat(course: Course, scenario: Scenario, results: Results, warm: dict[str, Broker]) -> None:
    for repeat in range(course.repeats):
        for kind in course.kinds:
            try:
                sample = _quiet_sample(course, scenario, kind, warm)
            except _FAILURES as failure:
                results.failures.append(f"{scenario.name} on {kind.title}: {failure}")
                _say(f"FAILED {results.failures[-1]}")
                continue
            results.samples.append(sample)
            figures = "  ".join(
                f"{sample.values[metric.key]:,.4g} {metric.unit}" for metric in scenario.metrics[:4]
            )
            _say(
                f"{scenario.name:26} {repeat + 1}/{course.repeats} {kind.name:8} {figures}"
                f"  (foreign {sample.foreign_cores:.2f} cores)"
            )


def _quiet_sample(course: Course, scenario: Scenario, kind: Kind, warm: dict[str, Broker]) -> Sample:
    def again() -> Sample:
        sample = _sample(course, scenario, kind, warm)
        if not sample.quiet:
            _say(f"{scenario.name:26} {kind.name:8} not quiet: foreign {sample.foreign_cores:.2f} cores")
        return sample

    return in_quiet(again, lambda sample: sample.foreign_cores)


def _sample(course: Course, scenario: Scenario, kind: Kind, warm: dict[str, Broker]) -> Sample:
    ours = [pid for broker in warm.values() for pid in broker.pids]
    wait_quiet(ours, QUIET_CORES, course.quiet_timeout_s)
    with ExitStack() as stack:
        # The other broker is idle but alive: what it uses meanwhile counts as foreign.
        broker = stack.enter_context(_launch(course, kind)) if scenario.fresh else warm[kind.name]
        stage = stack.enter_context(Stage(broker, course.plan))
        foreign, used = ForeignCpu([]), broker.cpu_s()
        values = scenario.sample(stage)
        cores = stage.foreign_cores
        if scenario.fresh:
            # The broker's start counts too, which is before anything is measured with a loader.
            cores = max(cores, foreign.cores(stage.loader_cpu_s + broker.cpu_s() - used))
    return Sample(scenario.name, kind.name, values, cores, stage.loader_cpu_s)


def _launch(course: Course, kind: Kind) -> Broker:
    port = free_port_pair()
    cpu = 0 if course.plan.split_cpus else None
    return Broker(kind, port, course.directory / f"{kind.name}-{port}", cpu)


def _warm_up(stage: Stage) -> None:
    """Every kind of load for a while: a virtual machine that compiles as it goes is compared when it has."""
    port, seconds = stage.broker.port, max(3.0, stage.plan.max_s)
    with stage.topic(12) as topic:
        for batch_bytes in (16 << 10, 64 << 10, 1 << 20):
            stage.measure(
                ProduceJob(port, topic.name, 12, batch_bytes, 4, 4, stage.plan.produce_bytes, seconds)
            )
        stage.measure(ProduceJob(port, topic.name, 12, 0, 50, 1, 1 << 40, seconds))
        stage.measure(ConsumeJob(port, topic.name, str(topic.topic_id), 1, 2, 1, 1 << 40, seconds))


def free_port_pair() -> int:
    """A port that is free together with the one after it, which Kafka's controller takes."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
