"""Failures become small: what does not matter to them is taken away."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from everlog.sim.cluster_plan import Blow, ClusterPlan, Mark, Strike, draw_cluster
from everlog.sim.cluster_world import ClusterResult
from everlog.sim.network import Weather
from everlog.sim.shrink import ddmin, shrink, signature


@pytest.mark.parametrize("wanted", [{3}, {0, 9}, {1, 4, 5, 8}, set(range(10)), set[int]()])
def test_only_what_is_needed_is_left(wanted: set[int]) -> None:
    tried = 0

    def fails(items: Sequence[int]) -> bool:
        nonlocal tried
        tried += 1
        return wanted <= set(items)

    assert set(ddmin(range(10), fails)) == wanted
    assert tried < 80


def a_plan() -> ClusterPlan:
    plan = draw_cluster(1)
    strikes = tuple(
        Strike(number, number * 100, blow, Mark.ANY, 50)
        for number, blow in enumerate([Blow.KILL, Blow.PAUSE, Blow.STORM, Blow.CLOG])
    )
    weather = Weather(delay_ms=30, late_percent=20, cut_percent=3)
    return replace(plan, strikes=strikes, clients=replace(plan.clients, weather=weather, load_ms=4_000))


def test_a_run_keeps_the_strikes_clients_and_time_that_its_failure_needs() -> None:
    def run(plan: ClusterPlan) -> Exception | ClusterResult:
        blows = {strike.blow for strike in plan.strikes}
        if {Blow.PAUSE, Blow.CLOG} <= blows and "reader0" not in plan.clients.absent:
            if plan.clients.load_ms >= 900:
                return AssertionError(f"lost {plan.clients.load_ms} records\nand more")
            return AssertionError("something else")
        return ClusterResult(plan, None, [], [], 0, 0, 0, {})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    found = shrink(a_plan(), run, ["plain0", "idempotent0", "reader0"])

    assert found.signature == "AssertionError: lost N records"
    assert [strike.blow for strike in found.plan.strikes] == [Blow.PAUSE, Blow.CLOG]
    assert found.plan.clients.absent == {"plain0", "idempotent0"}
    assert found.plan.clients.weather == Weather()
    assert 900 <= found.plan.clients.load_ms < 1_000
    assert found.runs < 60


def test_a_budget_of_runs_is_kept() -> None:
    runs = 0

    def run(plan: ClusterPlan) -> Exception:
        nonlocal runs
        runs += 1
        return AssertionError("always") if len(plan.strikes) == 4 else ValueError("another")

    assert shrink(a_plan(), run, ["a", "b"], most_runs=7).runs == runs == 7


def test_failures_are_told_apart_by_kind_and_not_by_number() -> None:
    assert signature(AssertionError("offset 12 of t-0")) == signature(AssertionError("offset 9 of t-3"))
    assert signature(AssertionError("lost")) != signature(KeyError("lost"))
