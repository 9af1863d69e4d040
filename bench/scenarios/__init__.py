"""The scenarios: each says what it measures and takes one sample at a time.

What lives here: which load is put on a broker and which figures are made of it, with their goals. What does
not: how load is made (`bench.loader`) and how often and in which order samples are taken (`bench.runner`).
The runner calls them in the order of `ALL`. A scenario treats both brokers alike and knows neither.
"""

from bench.metrics import Metric
from bench.scenarios import clients, consume, latency, lifecycle, mixed, produce, requests
from bench.scenarios.scenario import Scenario

ALL: tuple[Scenario, ...] = (
    *lifecycle.SCENARIOS,
    *produce.SCENARIOS,
    *consume.SCENARIOS,
    *mixed.SCENARIOS,
    *latency.SCENARIOS,
    *requests.SCENARIOS,
    *clients.SCENARIOS,
)
GROUPS = tuple(dict.fromkeys(scenario.group for scenario in ALL))
METRICS: tuple[Metric, ...] = tuple(metric for scenario in ALL for metric in scenario.metrics)
