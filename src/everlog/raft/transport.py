"""How a member of the quorum reaches the others: over `peers`, by their addresses."""

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from everlog.model.errors import ProtocolError
from everlog.peers.address import Address, Unreachable
from everlog.raft.messages import Answer, Fetch, FetchSnapshot, Request, Vote
from everlog.raft.replica import Timing
from everlog.raft.wire.asking import Sender, read_answer, request_message
from everlog.wire.message import Message

_log = logging.getLogger(__name__)

LANE = "quorum"
FETCH_LANE = "quorum fetch"
"""Fetches wait for something new, so they have a connection of their own."""


class QuorumPeer(Protocol):
    """What is needed of a `peers.Peer`."""

    def ask(
        self, request: Message, version: int, timeout_ms: int, done: Callable[[Message | Unreachable], None]
    ) -> None:
        """Send a request; `done` gets its answer or Unreachable, once."""
        ...

    def on_lost(self, tell: Callable[[Unreachable], None]) -> None:
        """Tell of each connection that ends and each attempt that fails."""
        ...

    def find_out_if_gone(self, done: Callable[[bool], None]) -> None:
        """Say whether the process there has ended: True once a connection is refused."""
        ...


class QuorumPeers(Protocol):
    """What is needed of `peers.Peers`."""

    def at(self, address: Address, lane: str = "") -> QuorumPeer:
        """The peer at an address, always the same one."""
        ...


class PeerTransport:
    """A `member.Transport` over connections.

    `on_gone` is told of a node whose process has ended: its connection closed, and nobody listens there any
    more. That is known in a moment, where silence takes a time-out.
    """

    def __init__(
        self,
        peers: QuorumPeers,
        sender: Sender,
        timing: Timing,
        addresses: Mapping[int, Address],
    ) -> None:
        self._peers = peers
        self._sender = sender
        self._timing = timing
        self._addresses = dict(addresses)
        """Where nodes listen for the quorum, as far as that is known."""
        self._watched: set[Address] = set()
        self._looked_for: set[Address] = set()
        self.on_gone: Callable[[int], None] = lambda _: None

    def address(self, node: int) -> Address | None:
        """Where a node listens for the quorum, as far as that is known."""
        return self._addresses.get(node)

    def learn(self, addresses: Mapping[int, Address]) -> None:
        """Take in where nodes listen."""
        self._addresses.update(addresses)

    def ask(self, node: int, request: Request, done: Callable[[Answer | None], None]) -> None:
        """Ask a node; `done` gets its answer, or None if none will come. It is called once."""
        address = self._addresses.get(node)
        if address is None:
            _log.warning("node %d is not known to listen anywhere, and is asked nothing", node)
            done(None)
            return
        is_fetch = isinstance(request, Fetch | FetchSnapshot)
        peer = self._peers.at(address, FETCH_LANE if is_fetch else LANE)
        if is_fetch and address not in self._watched:
            self._watched.add(address)
            peer.on_lost(lambda lost: self._lost(node, address, lost))
        message, version = request_message(request, self._sender)
        timeout_ms = self._timing.vote_ms if isinstance(request, Vote) else self._timing.fetch_ms
        peer.ask(message, version, timeout_ms, lambda response: self._answered(node, request, response, done))

    def _answered(
        self,
        node: int,
        request: Request,
        response: Message | Unreachable,
        done: Callable[[Answer | None], None],
    ) -> None:
        if isinstance(response, Unreachable):
            done(None)
            return
        try:
            read = read_answer(request, response)
        except ProtocolError as error:
            _log.warning("node %d answers what it should not: %s", node, error)
            done(None)
            return
        self.learn(read.endpoints)
        done(read.answer)

    def _lost(self, node: int, address: Address, lost: Unreachable) -> None:
        def found_out(refused: bool) -> None:
            self._looked_for.discard(address)
            if refused:
                self.on_gone(node)

        if lost.refused:
            self.on_gone(node)
        elif address not in self._looked_for:
            # It may be that only the connection broke; others are told apart from that by trying again.
            self._looked_for.add(address)
            self._peers.at(address, FETCH_LANE).find_out_if_gone(found_out)
