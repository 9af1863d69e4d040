"""What is measured, and what it must show: rows of the report."""

from dataclasses import dataclass
from enum import Enum


class Better(Enum):
    """Which way a figure improves."""

    MORE = "more"
    LESS = "less"


@dataclass(frozen=True, slots=True)
class Goal:
    """What Everlog must reach, and what it wants to.

    A relative goal counts how many times better than Apache Kafka, whichever way better is; an absolute one
    is a bound on Everlog's own figure.
    """

    floor: float
    want: float
    absolute: bool = False


class Verdict(Enum):
    """How a figure stands to its goal."""

    WANTED = "wanted"
    MET = "met"
    MISSED = "MISSED"
    NONE = ""


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a scenario."""

    key: str
    label: str
    unit: str
    better: Better
    goal: Goal | None = None
    headline: bool = False
    """Whether it belongs in the chart and in a quick run."""

    def advantage(self, everlog: float, kafka: float) -> float:
        """How many times better Everlog is; above 1 is better, whichever way better is."""
        if self.better is Better.MORE:
            return everlog / kafka
        return kafka / everlog

    def verdict(self, everlog: float, advantage: float | None) -> Verdict:
        """How Everlog's figure stands to the goal; `advantage` is None where Kafka was not run."""
        if self.goal is None:
            return Verdict.NONE
        if self.goal.absolute:
            floor_met, want_met = (
                self._within(everlog, self.goal.floor),
                self._within(everlog, self.goal.want),
            )
        elif advantage is None:
            return Verdict.NONE
        else:
            floor_met, want_met = advantage >= self.goal.floor, advantage >= self.goal.want
        return Verdict.WANTED if want_met else Verdict.MET if floor_met else Verdict.MISSED

    def _within(self, value: float, bound: float) -> bool:
        return value >= bound if self.better is Better.MORE else value <= bound
