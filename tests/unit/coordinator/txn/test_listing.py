"""Which transactions somebody asks for, and patterns that cannot stop the broker (P5)."""

from everlog.coordinator.group.regex import compile_pattern
from everlog.coordinator.txn.listing import TransactionFilter, listed
from everlog.coordinator.txn.states import TxnState
from tests.unit.coordinator.txn.bench import Bench


def names(bench: Bench, wanted: TransactionFilter) -> list[str]:
    return sorted(one.transactional_id for one in listed(bench.shard, wanted, bench.world.clock.wall()))


def a_bench() -> Bench:
    bench = Bench()
    bench.begun(name="long")
    bench.world.clock.advance(5000)
    bench.begun(name="short")
    bench.init("idle")
    return bench


def test_all_are_listed_that_pass_every_filter() -> None:
    bench = a_bench()

    assert names(bench, TransactionFilter()) == ["idle", "long", "short"]
    assert names(bench, TransactionFilter(states=frozenset({TxnState.ONGOING}))) == ["long", "short"]
    assert names(bench, TransactionFilter(states=frozenset())) == []
    assert names(bench, TransactionFilter(producer_ids=frozenset({1002, 9}))) == ["short"]
    assert names(bench, TransactionFilter(pattern=compile_pattern("(l|sh).*"))) == ["long", "short"]


def test_only_those_open_for_longer_than_asked_are_listed() -> None:
    bench = a_bench()
    ongoing = frozenset({TxnState.ONGOING})

    assert names(bench, TransactionFilter(ongoing, longer_than_ms=4999)) == ["long"]
    assert names(bench, TransactionFilter(ongoing, longer_than_ms=5000)) == []
    assert names(bench, TransactionFilter(ongoing, longer_than_ms=-1)) == ["long", "short"]


def test_a_pattern_has_to_match_the_whole_id() -> None:
    bench = a_bench()

    assert names(bench, TransactionFilter(pattern=compile_pattern("on"))) == []
    assert names(bench, TransactionFilter(pattern=compile_pattern(".*on.*"))) == ["long"]


def test_a_pattern_that_would_backtrack_for_ever_is_matched() -> None:
    bench = Bench()
    bench.init("a" * 30_000 + "b")

    assert names(bench, TransactionFilter(pattern=compile_pattern("(a+)+$"))) == []
