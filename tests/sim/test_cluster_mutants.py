"""The simulator of clusters has teeth: rules that are broken on purpose make one of a few seeds fail.

A few rules are broken here, each with the seeds that it is known to show in; `make sim` breaks them all.
"""

import logging

import pytest

from tests.sim.cluster_mutants import MUTANTS, look

_FEW = ("votes_go_to_whoever_asks", "consumers_read_to_the_end", "every_stop_counts_as_clean")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", _FEW)
def test_a_broken_rule_is_found(name: str) -> None:
    logging.disable(logging.CRITICAL)
    try:
        caught = look(name, range(1, 60))
    finally:
        logging.disable(logging.NOTSET)

    assert caught is not None, f"{MUTANTS[name].__doc__} No seed noticed."
