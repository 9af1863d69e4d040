"""A quorum and a desk that do what a test tells them to."""

from everlog.broker.controller_channel import ControllerChannel
from everlog.broker.exchange import Exchange
from everlog.peers.address import Address
from everlog.wire.apis import ApiKey
from everlog.wire.message import Message
from tests.unit.peers.scripted import ScriptedWorld

CONTROLLERS = {2: Address("node-2.test", 9093), 3: Address("node-3.test", 9093)}


class ScriptedQuorum:
    """Who leads is what the test has set."""

    node_id = 1

    def __init__(self) -> None:
        self.leader: int | None = None
        self.epoch = 1
        self.is_active = False

    @property
    def leader_address(self) -> Address | None:
        return Address("node-1.test", 9093) if self.leader == 1 else CONTROLLERS.get(self.leader or 0)


class ScriptedDesk:
    """Keeps what it is to serve; a test answers it."""

    def __init__(self) -> None:
        self.advertised: dict[int, tuple[int, int]] = {
            ApiKey.CREATE_TOPICS: (2, 7),
            ApiKey.DESCRIBE_QUORUM: (0, 2),
        }
        self.served: list[tuple[Message, Exchange]] = []

    def serve(self, request: Message, exchange: Exchange) -> None:
        self.served.append((request, exchange))


class ChannelWorld(ScriptedWorld):
    """A channel on scripted connections; its alarm is the peers' too."""

    def __init__(self, *, with_desk: bool = True) -> None:
        super().__init__()
        self.quorum = ScriptedQuorum()
        self.desk = ScriptedDesk()
        self.channel = ControllerChannel(
            self.quorum, self.desk if with_desk else None, self.peers, self.clock, self.alarm
        )

    def tick(self) -> None:
        self.channel.tick(self.clock.now())
        super().tick()
