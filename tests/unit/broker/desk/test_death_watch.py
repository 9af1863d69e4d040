"""A broker whose process has ended is known to have, and nobody else is taken for dead."""

from collections.abc import Callable

import pytest

from everlog.broker.desk.death_watch import DeathWatch
from everlog.metadata.image import BrokerImage
from everlog.model.ids import NO_UUID, BrokerId

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


class Neighbour:
    """Keeps who wants to know; a test answers."""

    def __init__(self) -> None:
        self.asked: list[Callable[[bool], None]] = []

    def find_out_if_gone(self, done: Callable[[bool], None]) -> None:
        self.asked.append(done)


class Stage:
    """A watch over brokers 2 and 3; broker 1 is this node's."""

    def __init__(self) -> None:
        self.neighbours = {TWO: Neighbour(), THREE: Neighbour()}
        self.gone: list[tuple[int, int]] = []
        self.watch = DeathWatch(self.neighbours.get, lambda broker, epoch: self.gone.append((broker, epoch)))

    def asked(self, broker: BrokerId) -> int:
        return len(self.neighbours[broker].asked)

    def say(self, broker: BrokerId, *, gone: bool) -> None:
        """Answer the last that was asked of a broker."""
        self.neighbours[broker].asked[-1](gone)


def a_broker(number: BrokerId, *, fenced: bool = False) -> BrokerImage:
    return BrokerImage(
        id=number,
        epoch=10 * number,
        incarnation=NO_UUID,
        endpoints=(),
        rack=None,
        fenced=fenced,
        in_controlled_shutdown=False,
        directories=(),
        features={},
    )


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    made.watch.took_over([], ONE)
    made.watch.beat(TWO, 20, connection=7)
    made.watch.beat(THREE, 30, connection=8)
    return made


def test_a_broker_whose_connection_closes_is_looked_for(stage: Stage) -> None:
    stage.watch.hung_up(7)
    assert (stage.asked(TWO), stage.asked(THREE)) == (1, 0)
    assert stage.gone == []
    stage.say(TWO, gone=True)
    assert stage.gone == [(2, 20)]


def test_one_that_is_still_there_is_left_alone(stage: Stage) -> None:
    stage.watch.hung_up(7)
    stage.say(TWO, gone=False)
    assert stage.gone == []


def test_connections_that_nobody_beats_on_may_close(stage: Stage) -> None:
    stage.watch.hung_up(99)
    stage.watch.beat(TWO, 20, connection=9)
    stage.watch.hung_up(7)
    assert stage.asked(TWO) == 0


def test_one_that_has_beaten_since_is_alive(stage: Stage) -> None:
    stage.watch.hung_up(7)
    stage.watch.beat(TWO, 20, connection=9)
    stage.say(TWO, gone=True)
    assert stage.gone == []


def test_one_that_was_started_again_is_not_taken_for_the_one_that_died(stage: Stage) -> None:
    stage.watch.hung_up(7)
    stage.watch.beat(TWO, 21, connection=9)
    stage.say(TWO, gone=True)
    assert stage.gone == []


def test_who_takes_over_looks_for_all_that_should_be_alive() -> None:
    stage = Stage()
    stage.watch.took_over([a_broker(ONE), a_broker(TWO), a_broker(THREE, fenced=True)], ONE)
    assert (stage.asked(TWO), stage.asked(THREE)) == (1, 0)
    stage.say(TWO, gone=True)
    assert stage.gone == [(2, 20)]


def test_whoever_leads_no_more_fences_nobody(stage: Stage) -> None:
    stage.watch.hung_up(7)
    stage.watch.stood_down()
    stage.say(TWO, gone=True)
    assert stage.gone == []
    stage.watch.beat(THREE, 30, connection=8)
    stage.watch.hung_up(8)
    assert stage.asked(THREE) == 0


def test_what_was_begun_in_an_earlier_lead_counts_for_nothing(stage: Stage) -> None:
    stage.watch.hung_up(7)
    stage.watch.stood_down()
    stage.watch.took_over([], ONE)
    stage.say(TWO, gone=True)
    assert stage.gone == []


def test_a_broker_that_nobody_can_find_is_left_to_its_session() -> None:
    stage = Stage()
    stage.watch.took_over([a_broker(BrokerId(4))], ONE)
    stage.watch.beat(BrokerId(4), 40, connection=5)
    stage.watch.hung_up(5)
    assert stage.gone == []
