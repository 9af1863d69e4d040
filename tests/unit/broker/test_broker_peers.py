"""Brokers are reached where the image says they listen for each other."""

from dataclasses import replace

from everlog.broker.broker_peers import BrokerPeers
from everlog.metadata.image import EMPTY_IMAGE, BrokerImage, ClusterImage, Endpoint
from everlog.model.ids import NO_UUID, BrokerId
from everlog.model.settings.listeners import SecurityProtocol
from everlog.peers.address import Address, Unreachable
from everlog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tests.unit.peers.scripted import ScriptedWorld


def a_broker(number: int, *endpoints: tuple[str, str, int], fenced: bool = False) -> BrokerImage:
    return BrokerImage(
        id=BrokerId(number),
        epoch=1,
        incarnation=NO_UUID,
        endpoints=tuple(
            Endpoint(name, host, port, SecurityProtocol.PLAINTEXT) for name, host, port in endpoints
        ),
        rack=None,
        fenced=fenced,
        in_controlled_shutdown=False,
        directories=(),
        features={},
    )


def an_image(*brokers: BrokerImage) -> ClusterImage:
    return replace(EMPTY_IMAGE, brokers={broker.id: broker for broker in brokers})


def address_of(peers: BrokerPeers, number: int) -> Address | None:
    peer = peers.peer(BrokerId(number))
    return None if peer is None else peer.address


def test_the_listener_for_brokers_counts() -> None:
    brokers = BrokerPeers(ScriptedWorld().peers, "INTERNAL")
    brokers.image_changed(
        an_image(
            a_broker(1, ("EXTERNAL", "one.example", 9092), ("INTERNAL", "one.test", 9094)),
            a_broker(2, ("EXTERNAL", "two.example", 9092)),
            a_broker(3, ("INTERNAL", "three.test", 9094), fenced=True),
        )
    )
    assert address_of(brokers, 1) == Address("one.test", 9094)
    assert address_of(brokers, 2) is None
    assert address_of(brokers, 3) == Address("three.test", 9094)
    assert address_of(brokers, 4) is None


def test_lanes_are_connections_of_their_own() -> None:
    brokers = BrokerPeers(ScriptedWorld().peers, "INTERNAL")
    brokers.image_changed(an_image(a_broker(1, ("INTERNAL", "one.test", 9094))))
    assert brokers.peer(BrokerId(1), "fetch") is not brokers.peer(BrokerId(1))
    assert brokers.peer(BrokerId(1), "fetch") is brokers.peer(BrokerId(1), "fetch")


def test_a_broker_that_moves_is_followed_and_its_old_connections_end() -> None:
    world = ScriptedWorld()
    brokers = BrokerPeers(world.peers, "INTERNAL")
    brokers.image_changed(
        an_image(a_broker(1, ("INTERNAL", "one.test", 9094)), a_broker(2, ("INTERNAL", "two.test", 9094)))
    )
    heard: list[object] = []
    for number in (1, 2):
        peer = brokers.peer(BrokerId(number))
        assert peer is not None
        peer.ask(BrokerHeartbeatRequest(), 1, 1_000, heard.append)
    brokers.image_changed(
        an_image(a_broker(1, ("INTERNAL", "one.test", 9095)), a_broker(2, ("INTERNAL", "two.test", 9094)))
    )
    assert address_of(brokers, 1) == Address("one.test", 9095)
    assert [link.closed for link in world.links] == [True, False]
    assert [type(one) for one in heard] == [Unreachable]


def test_an_address_that_another_broker_has_taken_over_is_kept() -> None:
    world = ScriptedWorld()
    brokers = BrokerPeers(world.peers, "INTERNAL")
    brokers.image_changed(an_image(a_broker(1, ("INTERNAL", "one.test", 9094))))
    peer = brokers.peer(BrokerId(1))
    assert peer is not None
    peer.ask(BrokerHeartbeatRequest(), 1, 1_000, lambda _: None)
    brokers.image_changed(an_image(a_broker(5, ("INTERNAL", "one.test", 9094))))
    assert not world.links[0].closed
    assert address_of(brokers, 1) is None
