"""What only real connections to other nodes have: buffers, resolvers, sockets that connect to themselves."""

import asyncio
import errno
import socket
import struct
from collections.abc import Iterator

import pytest
import uvloop

from everlog.edge.links import BELIEVED_BYTES, BUFFER_BYTES, RealLinks, Reception
from everlog.model.errors import ProtocolError
from tests.unit.ports.link_worlds import Owner, RealWorld, framed


def put(reception: Reception, data: bytes) -> list[bytes]:
    """Feed bytes in reads as large as there is room for; return the frames they complete."""
    frames: list[bytes] = []
    rest = memoryview(data)
    while rest:
        room = reception.room()
        assert room, "there is always room"
        count = min(len(room), len(rest))
        room[:count] = rest[:count]
        rest = rest[count:]
        reception.filled(count)
        while (frame := reception.take()) is not None:
            frames.append(bytes(frame))
    return frames


class TestReception:
    @pytest.mark.parametrize("step", [1, 3, 7, 100, 1_000_000])
    def test_frames_are_whole_whatever_pieces_they_come_in(self, step: int) -> None:
        bodies = [b"", b"x", b"y" * 300, b"", b"z" * 5_000]
        stream = b"".join(map(framed, bodies))
        reception = Reception()
        frames: list[bytes] = []
        for at in range(0, len(stream), step):
            frames.extend(put(reception, stream[at : at + step]))
        assert frames == bodies

    def test_a_large_answer_is_read_into_place(self) -> None:
        reception = Reception()
        body = bytes(3_000_000)
        put(reception, framed(body)[:100])
        assert len(reception.room()) >= len(body) - 100, "one read could take all the rest"
        assert put(reception, framed(body)[100:]) == [body]

    def test_the_buffer_is_kept_for_the_next_large_answer(self) -> None:
        reception = Reception()
        body = bytes(3_000_000)
        put(reception, framed(body))
        before = reception.capacity
        put(reception, framed(bytes(3_100_000)))
        assert reception.capacity == before

    def test_memory_for_a_huge_answer_is_taken_as_its_bytes_come(self) -> None:
        reception = Reception()
        put(reception, struct.pack(">i", 200_000_000))
        assert reception.capacity == BUFFER_BYTES
        put(reception, bytes(BUFFER_BYTES))
        assert reception.capacity < 2 * BELIEVED_BYTES

    def test_huge_answers_arrive(self) -> None:
        body = bytes(range(256)) * (BELIEVED_BYTES * 3 // 2 // 256)
        assert put(Reception(), framed(b"a") + framed(body) + framed(b"b")) == [b"a", body, b"b"]

    def test_a_large_buffer_is_given_back_when_answers_are_small_again(self) -> None:
        reception = Reception()
        put(reception, framed(bytes(3_000_000)))
        for _ in range(100):
            put(reception, framed(b"small"))
        assert reception.capacity == BUFFER_BYTES
        assert put(reception, framed(b"still") + framed(b"works")) == [b"still", b"works"]

    @pytest.mark.parametrize(
        ("start", "said"),
        [(b"HTTP", "a frame of"), (b"\xff\xff\xff\xff", "-1 bytes"), (b"\x16\x03\x01\x02", "TLS")],
    )
    def test_what_is_no_size_is_not_believed(self, start: bytes, said: str) -> None:
        with pytest.raises(ProtocolError, match=said):
            put(Reception(), start)


@pytest.fixture(params=["asyncio", "uvloop"])
def world(request: pytest.FixtureRequest) -> Iterator[RealWorld]:
    made = RealWorld(uvloop.new_event_loop() if request.param == "uvloop" else asyncio.new_event_loop())
    yield made
    made.close()


def connected(world: RealWorld, owner: Owner) -> None:
    world.links.connect(world.host, world.port, owner)
    world.until(lambda: bool(world.taken) and owner.heard == ["opened"])


def test_large_answers_come_whole(world: RealWorld) -> None:
    owner = Owner()
    connected(world, owner)
    body = bytes(range(256)) * 100_000
    world.taken[0].send(framed(body) + framed(b"next"))
    world.until(lambda: len(owner.frames) == 2)
    assert owner.frames == [body, b"next"]


def test_large_requests_go_out_whole(world: RealWorld) -> None:
    link = world.links.connect(world.host, world.port, Owner())
    body = bytes(range(256)) * 50_000
    whole = memoryview(framed(body))
    link.send([whole[:1_000], whole[1_000:]])
    world.until(lambda: bool(world.taken) and bool(world.taken[0].frames))
    assert world.taken[0].frames == [body]


def test_bytes_that_are_no_frame_end_the_connection(world: RealWorld) -> None:
    owner = Owner()
    connected(world, owner)
    world.taken[0].send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    world.until(lambda: owner.heard == ["opened", "lost"])
    world.until(lambda: world.taken[0].is_over)
    assert world.real_links.count == 0


def test_an_owner_that_fails_loses_its_connection_and_no_other(world: RealWorld) -> None:
    def fail(_: memoryview) -> None:
        raise RuntimeError("a bug")

    owner, other = Owner(), Owner()
    owner.on_frame = fail
    connected(world, owner)
    world.links.connect(world.host, world.port, other)
    world.until(lambda: len(world.taken) == 2 and other.heard == ["opened"])
    world.taken[0].send(framed(b"x"))
    world.until(lambda: owner.heard[-1] == "lost")
    world.taken[1].send(framed(b"y"))
    world.until(lambda: other.frames == [b"y"])


def test_after_each_read_things_are_settled(world: RealWorld) -> None:
    owner = Owner()
    settled: list[int] = []
    connected(world, owner)
    world.real_links.settle = lambda: settled.append(len(owner.frames))
    world.taken[0].send(framed(b"x") + framed(b"y"))
    world.until(lambda: settled == [2])


def test_names_are_resolved_and_refused_if_every_address_refuses(world: RealWorld) -> None:
    owner, refused = Owner(), Owner()
    world.links.connect("localhost", world.port, owner)
    world.links.connect("localhost", world.silent_port, refused)
    world.until(lambda: owner.heard == ["opened"])
    world.until(lambda: refused.heard == ["refused"])


def test_a_name_that_nobody_has_is_lost_and_not_refused(world: RealWorld) -> None:
    owner = Owner()
    world.links.connect("no-such-host.invalid", 9092, owner)
    world.until(lambda: owner.heard == ["lost"])


def test_a_port_that_is_none_is_lost(world: RealWorld) -> None:
    owner = Owner()
    world.links.connect("127.0.0.1", 123_456, owner)
    world.until(lambda: owner.heard == ["lost"])


def test_connections_have_no_delay_and_are_kept_alive(world: RealWorld) -> None:
    owner = Owner()
    link = world.real_links.connect(world.host, world.port, owner)
    world.until(lambda: owner.heard == ["opened"])
    assert link.transport is not None
    made: socket.socket = link.transport.get_extra_info("socket")
    assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 5_000
    if hasattr(socket, "TCP_CONGESTION"):
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).startswith(b"reno")


def test_a_socket_that_connects_to_itself_is_refused(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unlucky(socket.socket):
        """Gets the port that it is about to connect to, as one in some thousands does on loopback."""

        def __init__(self, family: int = -1, kind: int = -1, protocol: int = -1, fd: int | None = None):
            super().__init__(family, kind, protocol, fd)
            if fd is None:
                self.bind(("127.0.0.1", world.silent_port))

    owner = Owner()
    monkeypatch.setattr(socket, "socket", Unlucky)
    world.links.connect("127.0.0.1", world.silent_port, owner)
    world.until(lambda: owner.heard == ["refused"])


def test_an_address_that_says_nothing_is_given_up(world: RealWorld) -> None:
    # A listener whose queue is full drops what comes: nothing answers, and nothing refuses.
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address: tuple[str, int] = listener.getsockname()
        crowd = [socket.socket() for _ in range(3)]
        try:
            for one in crowd:
                one.setblocking(False)
                assert one.connect_ex(address) in (0, errno.EINPROGRESS)
            owner = Owner()
            RealLinks(world.loop, connect_seconds=0.2).connect(address[0], address[1], owner)
            world.until(lambda: owner.heard == ["lost"])
        finally:
            for one in crowd:
                one.close()


def test_closing_all_ends_attempts_too(world: RealWorld) -> None:
    owner, other = Owner(), Owner()
    connected(world, owner)
    world.links.connect(world.host, world.port, other)
    world.real_links.close()
    world.until(lambda: world.taken[0].is_over)
    assert (owner.heard, other.heard) == (["opened"], [])
    assert world.real_links.count == 0


def test_a_loop_may_end_once_attempts_are_over(world: RealWorld) -> None:
    async def close() -> None:
        world.real_links.connect("localhost", world.port, Owner())
        await asyncio.sleep(0)  # it asks the resolver by now
        world.real_links.close()
        await world.real_links.wait_closed()
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    world.real_links.loop.run_until_complete(close())
