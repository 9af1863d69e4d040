"""Plays a script in a simulated world: connections, time-outs, and answers to the requests they belong to."""

from collections.abc import Callable
from typing import Any, Protocol, assert_never

from everlog.sim.script import Burst, Call, Lost, Script, Sleep
from everlog.wire.codec import decode_response, encode_request
from everlog.wire.message import Message


class Connection(Protocol):
    """What a player asks of a connection."""

    @property
    def open(self) -> bool:
        """Whether bytes still move."""
        ...

    def send(self, frame: bytes) -> None:
        """Send a request."""
        ...

    def give_up(self) -> None:
        """Listen no more. What was sent may still arrive."""
        ...


Connect = Callable[[int, Callable[[bytes], None], Callable[[], None]], Connection]
"""Opens a connection to a node, given who hears answers and who hears of its end."""
_Channel = tuple[str, int]
"""A connection of a client: what it is for, and to which node it goes."""


class Player:
    """One client. It does one step at a time; where no answer comes in time, its connection is given up."""

    def __init__(
        self,
        name: str,
        script: Script[None],
        at: Callable[[int, Callable[[], None]], None],
        connect: Connect,
    ) -> None:
        self.name = name
        self.done = False
        self._script = script
        self._at = at
        self._connect = connect
        self._channels: dict[_Channel, Connection] = {}
        self._correlation_id = 0
        self._waiting: dict[int, tuple[int, Call]] = {}
        """Requests without an answer, by correlation id: their place in the step."""
        self._answers: list[Message | None] = []
        self._step = 0
        """Counts steps, so that what belongs to an earlier one is told from what belongs to this."""
        self._single = True

    def start(self) -> None:
        """Do the first step."""
        self._resume(lambda: next(self._script))

    def kill(self) -> None:
        """Stop in the middle of whatever it does; its connections end."""
        if not self.done:
            self.done = True
            self._step += 1
            self._script.close()
            for connection in self._channels.values():
                connection.give_up()

    def _resume(self, go_on: Callable[[], Any]) -> None:
        self._step += 1
        self._waiting.clear()
        try:
            step = go_on()
        except StopIteration:
            self.done = True
            return
        match step:
            case Sleep():
                at_step = self._step
                self._at(step.ms, lambda: self._slept(at_step))
            case Call():
                self._send((step,), single=True)
            case Burst():
                self._send(step.calls, single=False)
            case _:
                assert_never(step)

    def _slept(self, at_step: int) -> None:
        if at_step == self._step:
            self._resume(lambda: self._script.send(None))

    def _send(self, calls: tuple[Call, ...], *, single: bool) -> None:
        self._single = single
        self._answers = [None] * len(calls)
        channel = _channel(calls[0])
        connection = self._channels.get(channel)
        if connection is None or not connection.open:
            connection = self._channels[channel] = self._open(channel)
        at_step = self._step
        self._at(calls[0].timeout_ms, lambda: self._timed_out(at_step, channel))
        for place, call in enumerate(calls):
            self._correlation_id += 1
            self._waiting[self._correlation_id] = (place, call)
            connection.send(encode_request(call.request, call.version, self._correlation_id, self.name))

    def _open(self, channel: _Channel) -> Connection:
        opened: list[Connection] = []

        def lost() -> None:
            if not self.done and self._channels.get(channel) is opened[0]:
                self._give_up(channel)

        opened.append(self._connect(channel[1], self._received, lost))
        return opened[0]

    def _received(self, frame: bytes) -> None:
        correlation_id = int.from_bytes(frame[4:8], "big")
        found = self._waiting.pop(correlation_id, None)
        if found is None or self.done:
            return
        place, call = found
        assert call.request.KEY is not None
        _, answer = decode_response(call.request.KEY, call.version, frame[4:])
        self._answers[place] = answer
        if not self._waiting:
            self._finish()

    def _timed_out(self, at_step: int, channel: _Channel) -> None:
        if at_step == self._step and not self.done:
            self._give_up(channel)

    def _give_up(self, channel: _Channel) -> None:
        """Lose a connection; a step that waits for it ends."""
        connection = self._channels.pop(channel, None)
        if connection is not None:
            connection.give_up()
        if any(_channel(call) == channel for _, call in self._waiting.values()):
            self._finish()

    def _finish(self) -> None:
        answers, single = self._answers, self._single
        if not single:
            self._resume(lambda: self._script.send(answers))
        elif answers[0] is None:
            self._resume(lambda: self._script.throw(Lost()))
        else:
            self._resume(lambda: self._script.send(answers[0]))


def _channel(call: Call) -> _Channel:
    return call.channel, call.node
