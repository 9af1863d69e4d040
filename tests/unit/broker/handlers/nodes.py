"""A simulated node and one client of it, for tests that ask one thing after the other."""

from everlog.sim.disk import SimFiles
from everlog.wire.message import Message
from tests.unit.broker.simulated import M, SimulatedNode


class SimNode(SimulatedNode):
    """One node that serves, and a client that may not be turned away."""

    def __init__(self, files: SimFiles | None = None, **given: str) -> None:
        super().__init__(files, **given)
        self.connect("PLAINTEXT")

    def connect(self, listener_name: str) -> None:
        """Speak through this listener from now on."""
        self._client = self.client(listener_name)

    @property
    def answers(self) -> list[bytes]:
        """The answer frames that nobody has looked at."""
        return self._client.frames

    def request(self, message: Message, version: int) -> None:
        """Send a request and let nothing happen on the disk."""
        self._client.ask(message, version)

    def ask(self, message: Message, version: int, answer_type: type[M]) -> M:
        """Send a request, let the disk work, and return its answer."""
        answer = self._client.call(message, version, answer_type)
        assert self._client.open, "the broker closed the connection"
        return answer
