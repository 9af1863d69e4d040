"""What a desk does about the others when its controller takes over (R5)."""

from everlog.broker.desk.desk import Desk
from everlog.model.ids import BrokerId
from everlog.peers.peers import Peers
from everlog.ports.links import Link, LinkOwner
from everlog.sim.alarm import SimAlarm
from tests.unit.broker.desk.seats import CLUSTER_ID, SimulatedDesk
from tests.unit.controller.builders import some_settings


class _Nowhere:
    """A network in which no attempt to connect ever ends."""

    def send(self, frame: object) -> None:
        """Nobody gets it."""

    def close(self) -> None:
        """There is nothing to close."""

    def connect(self, host: str, port: int, owner: LinkOwner) -> Link:
        return self


def a_desk(seat: SimulatedDesk) -> Desk:
    """The desk of the controller at a seat, which other brokers have joined."""
    alarm = SimAlarm()
    peers = Peers(_Nowhere(), seat.clock, alarm, "node")
    return Desk(some_settings(), CLUSTER_ID, seat.machine.quorum, seat.controller, peers, seat.clock, alarm)


def fenced(seat: SimulatedDesk, number: int) -> bool:
    seat.machine.aside.run_all()
    return seat.image.brokers[BrokerId(number)].fenced


def test_a_controller_that_has_ended_is_fenced_as_a_broker_without_another_look() -> None:
    seat = SimulatedDesk()
    seat.join(1, 2, 3)
    a_desk(seat)

    seat.machine.quorum.on_leader_gone(2)
    seat.controller.on_active()

    assert (fenced(seat, 2), fenced(seat, 3)) == (True, False)


def test_a_broker_that_came_back_meanwhile_is_not_taken_for_the_one_that_ended() -> None:
    seat = SimulatedDesk()
    seat.join(1, 2, 3)
    a_desk(seat)

    seat.machine.quorum.on_leader_gone(2)
    seat.beat(2, want_fence=True)
    seat.join(2)
    seat.controller.on_active()

    assert not fenced(seat, 2)
