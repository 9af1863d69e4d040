"""When a sample counts as taken in quiet, and what is done if it does not."""

from bench.machine import QUIET_CORES, QUIET_TRIES, in_quiet


def taken(*cores: float) -> tuple[float, int]:
    """The sample that is kept of a machine on which others use so much, and how many were taken."""
    left = list(cores)

    def take() -> float:
        return left.pop(0)

    kept = in_quiet(take, lambda sample: sample)
    return kept, len(cores) - len(left)


def test_a_quiet_sample_is_taken_once() -> None:
    assert taken(0.1, 0.0) == (0.1, 1)


def test_a_sample_beside_others_is_taken_again_until_it_is_quiet() -> None:
    assert taken(0.9, QUIET_CORES, 0.2, 0.0) == (0.2, 3)


def test_of_a_machine_that_is_never_quiet_the_quietest_sample_is_kept() -> None:
    cores = [0.9, 0.5, 0.3, 0.4, 0.6, 0.0]

    assert taken(*cores) == (0.3, QUIET_TRIES)
