"""The other brokers, as this one reaches them."""

from everlog.metadata.image import ClusterImage
from everlog.model.ids import BrokerId
from everlog.peers.address import Address
from everlog.peers.peer import Peer
from everlog.peers.peers import Peers


class BrokerPeers:
    """Knows by the image where each broker listens for others; ends connections to where none does now."""

    def __init__(self, peers: Peers, listener_name: str) -> None:
        """`listener_name` is what `inter.broker.listener.name` says, the same on all brokers."""
        self._peers = peers
        self._listener_name = listener_name
        self._addresses: dict[BrokerId, Address] = {}

    def image_changed(self, image: ClusterImage) -> None:
        """Follow where brokers are now. It costs as much as there are brokers: call it when those changed."""
        before = set(self._addresses.values())
        self._addresses = {}
        for broker in image.brokers.values():
            endpoint = broker.endpoint(self._listener_name)
            if endpoint is not None:
                self._addresses[broker.id] = Address(endpoint.host, endpoint.port)
        for address in before.difference(self._addresses.values()):
            self._peers.forget(address)

    def peer(self, broker_id: BrokerId, lane: str = "") -> Peer | None:
        """The broker of that id, fenced or not; None if it is not registered or has no such listener."""
        address = self._addresses.get(broker_id)
        return None if address is None else self._peers.at(address, lane)
