"""What a scenario is."""

from collections.abc import Callable
from dataclasses import dataclass

from bench.metrics import Metric
from bench.samples import Values
from bench.stage import Stage


@dataclass(frozen=True, slots=True)
class Scenario:
    """A load and the figures made of it."""

    name: str
    group: str
    """What `--only` selects."""
    metrics: tuple[Metric, ...]
    sample: Callable[[Stage], Values]
    """Take one sample: a value for the key of each metric."""
    fresh: bool = False
    """Whether each sample gets a broker of its own, launched a moment before; else one that is warm."""

    @property
    def headline(self) -> bool:
        """Whether a quick run includes it."""
        return any(metric.headline for metric in self.metrics)
