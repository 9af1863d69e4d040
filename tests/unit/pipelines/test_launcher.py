"""How a run is ended from outside: a service manager's wish is Ctrl-C, once."""

import signal

import pytest

from everlog.pipelines.launcher import terminated_as_interrupted


def test_a_second_sigterm_does_not_hurry_the_end_that_the_first_has_begun() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with terminated_as_interrupted():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)

    assert signal.getsignal(signal.SIGTERM) == before


def test_ctrl_c_after_sigterm_still_interrupts() -> None:
    with terminated_as_interrupted():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
