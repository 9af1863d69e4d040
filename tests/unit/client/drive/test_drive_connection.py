"""Connections over real sockets: order, time-outs, callers that give up, what is held back, how they end."""

import asyncio
import gc
import socket

import pytest

from everlog.client.core.errors import TimedOut, Unreachable, Unsupported
from everlog.client.drive.connection import Connection
from everlog.model.errors import ProtocolError
from everlog.wire.codec import encode_response
from everlog.wire.messages.metadata import MetadataRequest, MetadataResponse
from everlog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.unit.client.drive.unruly import Peer, ask, broker, connect, named, run


def test_requests_may_be_sent_ahead_and_answers_come_in_their_order() -> None:
    async def work() -> list[str | None]:
        async def behave(peer: Peer) -> None:
            await peer.greet()
            await peer.serve()

        async with broker(behave) as calm:
            connection = await connect(calm.address)
            answers = [ask(connection) for _ in range(3)]
            assert connection.in_flight == 3
            found = [(await answer).cluster_id for answer in answers]
            assert connection.in_flight == 0
            connection.close()
            return found

    assert run(work()) == ["answer-2", "answer-3", "answer-4"]


def test_answers_in_any_pieces_are_read_whole() -> None:
    """One byte at a time, and several at once."""

    async def work() -> list[str | None]:
        async def behave(peer: Peer) -> None:
            await peer.greet()
            answers = b""
            for _ in range(3):
                header = await peer.request()
                answers += encode_response(named(header), header.api_version, header.correlation_id)
            for at in range(40):
                await peer.raw(answers[at : at + 1])
                await asyncio.sleep(0)
            await peer.raw(answers[40:])
            await peer.hang()

        async with broker(behave) as slow:
            connection = await connect(slow.address)
            found = [
                answer.cluster_id for answer in await asyncio.gather(*(ask(connection) for _ in range(3)))
            ]
            connection.close()
            return found

    assert run(work()) == ["answer-2", "answer-3", "answer-4"]


def test_the_buffers_of_a_socket_have_the_sizes_asked_for() -> None:
    async def work() -> tuple[int, int]:
        async def behave(peer: Peer) -> None:
            await peer.greet()
            await peer.serve()

        async with broker(behave) as calm:
            connection = await connect(calm.address, send_buffer_bytes=20_000, receive_buffer_bytes=30_000)
            transport = connection._transport  # pyright: ignore[reportPrivateUsage]  # nothing else shows it
            assert transport is not None
            made = transport.get_extra_info("socket")
            sizes = [
                made.getsockopt(socket.SOL_SOCKET, name) for name in (socket.SO_SNDBUF, socket.SO_RCVBUF)
            ]
            connection.close()
            return sizes[0], sizes[1]

    # Linux doubles them, for its own needs.
    assert run(work()) in ((40_000, 60_000), (20_000, 30_000))


def test_requests_to_this_machine_leave_unpaced() -> None:
    async def work() -> bytes:
        async def behave(peer: Peer) -> None:
            await peer.greet()
            await peer.serve()

        async with broker(behave) as calm:
            connection = await connect(calm.address)
            transport = connection._transport  # pyright: ignore[reportPrivateUsage]  # nothing else shows it
            assert transport is not None
            made = transport.get_extra_info("socket")
            chosen: bytes = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
            connection.close()
            return chosen

    assert run(work()).rstrip(b"\0") == b"reno"


def test_an_opening_that_failed_leaves_no_connection_behind() -> None:
    async def work() -> None:
        hung_up = asyncio.Event()

        async def behave(peer: Peer) -> None:
            await peer.hang()
            hung_up.set()

        async with broker(behave) as mute:
            with pytest.raises(TimedOut):
                await connect(mute.address, socket_connection_setup_timeout_ms=50)
            await hung_up.wait()

    run(work())


def test_nobody_listening_is_a_refused_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    async def work() -> None:
        with pytest.raises(Unreachable, match="refused the connection: is it running there"):
            await connect(f"127.0.0.1:{port}")

    run(work())


def test_a_host_that_is_not_found_is_named() -> None:
    async def work() -> None:
        with pytest.raises(Unreachable, match=r"host 'no\.such\.host\.invalid' cannot be found"):
            await connect("no.such.host.invalid:9092")

    run(work())


async def answer_twice(peer: Peer) -> None:
    header = await peer.request()
    once = encode_response(named(header), header.api_version, header.correlation_id)
    await peer.raw(once + once)
    await peer.hang()


def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    async def work() -> None:
        async def behave(peer: Peer) -> None:
            await peer.greet()
            await answer_twice(peer)

        async with broker(behave) as unruly:
            connection = await connect(unruly.address)
            assert (await ask(connection)).cluster_id == "answer-2"
            ended = asyncio.Event()
            connection.when_closed(lambda _: ended.set())
            await ended.wait()
            with pytest.raises(ProtocolError, match="nobody asked for"):
                await ask(connection)

    run(work())


def test_a_lost_connection_is_noticed_at_once_though_nothing_is_under_way() -> None:
    async def work() -> None:
        hang_up_now = asyncio.Event()

        async def behave(peer: Peer) -> None:
            await peer.greet()
            await hang_up_now.wait()

        async with broker(behave) as unruly:
            connection = await connect(unruly.address)
            ended = asyncio.Event()
            connection.when_closed(lambda _: ended.set())
            hang_up_now.set()
            await ended.wait()
            assert not connection.is_open

    run(work())


def test_a_caller_that_stops_waiting_does_not_desync_the_stream() -> None:
    """The answer to a cancelled request comes late and is dropped; the next one gets its own."""

    async def work() -> list[str | None]:
        go_on = asyncio.Event()

        async def behave(peer: Peer) -> None:
            await peer.greet()
            headers = [await peer.request() for _ in range(3)]
            await go_on.wait()
            for header in headers:
                await peer.answer(header, named(header))
            await peer.serve()

        async with broker(behave) as slow:
            connection = await connect(slow.address)
            first = asyncio.ensure_future(connection.call(MetadataRequest(), MetadataResponse, 30.0))
            await asyncio.sleep(0)
            second, third = ask(connection), ask(connection)
            first.cancel()
            second.cancel()
            go_on.set()
            found = [(await third).cluster_id, (await ask(connection)).cluster_id]
            assert connection.is_open
            connection.close()
            return found

    assert run(work()) == ["answer-4", "answer-5"]


def test_a_short_time_out_is_the_callers_alone() -> None:
    async def work() -> None:
        go_on = asyncio.Event()

        async def behave(peer: Peer) -> None:
            await peer.greet()
            header = await peer.request()
            await go_on.wait()
            await peer.answer(header, named(header))
            await peer.serve()

        async with broker(behave) as slow:
            connection = await connect(slow.address, request_timeout_ms=30_000)
            with pytest.raises(TimedOut, match=r"METADATA within 0\.05 s"):
                await ask(connection, 0.05)
            go_on.set()
            assert (await ask(connection)).cluster_id == "answer-3"
            connection.close()

    run(work())


def test_a_broker_that_throttles_us_is_given_the_time_that_it_said() -> None:
    """It does not read the connection for so long (KIP-219), which is no fault of the next request."""

    async def work() -> None:
        async def behave(peer: Peer) -> None:
            await peer.greet()
            header = await peer.request()
            await peer.answer(header, MetadataResponse(throttle_time_ms=60_000))
            header = await peer.request()
            await asyncio.sleep(0.1)
            await peer.answer(header, named(header))
            await peer.hang()

        async with broker(behave) as stern:
            connection = await connect(stern.address)
            await ask(connection)
            assert (await ask(connection, 0.02)).cluster_id == "answer-3"
            connection.close()

    run(work())


def test_a_full_time_out_ends_the_connection_and_all_that_is_under_way() -> None:
    async def work() -> None:
        async def behave(peer: Peer) -> None:
            await peer.greet()
            await peer.hang()

        async with broker(behave) as mute:
            connection = await connect(mute.address, request_timeout_ms=100)
            first, behind = ask(connection, 0.1), ask(connection, 30.0)
            for answer in (first, behind):
                with pytest.raises(TimedOut, match=r"within 0\.1 s"):
                    await answer
            assert not connection.is_open

    run(work())


def test_silence_ends_the_connection_though_each_caller_had_little_time() -> None:
    async def work() -> int:
        async def behave(peer: Peer) -> None:
            await peer.greet()
            await peer.hang()

        async with broker(behave) as mute:
            connection = await connect(mute.address, request_timeout_ms=1_000)
            tries = 0
            while connection.is_open:
                tries += 1
                with pytest.raises(TimedOut):
                    await ask(connection, 0.03)
            return tries

    assert run(work()) > 1


def test_what_was_never_awaited_is_not_complained_of() -> None:
    """`run` fails if the loop's exception handler is called."""

    async def work() -> None:
        async def behave(peer: Peer) -> None:
            await peer.greet()
            await peer.request()

        async with broker(behave) as unruly:
            connection = await connect(unruly.address)
            ask(connection)
            ask(connection)
            ended = asyncio.Event()
            connection.when_closed(lambda _: ended.set())
            await ended.wait()
            ask(connection)
            del connection
            gc.collect()
            await asyncio.sleep(0)

    run(work())


def test_a_request_that_the_broker_does_not_serve_fails_alone() -> None:
    async def work() -> None:
        async def behave(peer: Peer) -> None:
            await peer.greet()
            await peer.serve()

        async with broker(behave) as calm:
            connection = await connect(calm.address)
            with pytest.raises(Unsupported):
                await connection.send(MetadataRequest(), MetadataResponse, 5.0, at_most=-1)
            assert (await ask(connection)).cluster_id
            connection.close()

    run(work())


def test_large_batches_arrive_as_they_were_given() -> None:
    """They are written beside the small parts of the request, not copied into it."""
    batches = [bytes([index]) * size for index, size in enumerate((10, 8191, 8192, 300_000, 3_000_000))]

    async def work() -> list[bytes]:
        arrived: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def behave(peer: Peer) -> None:
            await peer.greet()
            data = await peer.frame()
            arrived.set_result(data)
            await peer.hang()

        async with broker(behave) as calm:
            connection = await connect(calm.address)
            connection.send_silent(_produce(batches), at_most=12)
            frame = await arrived
            await connection.drained()
            connection.close()
        return [batch for batch in batches if batch in frame]

    assert run(work()) == batches


def test_what_has_no_answer_still_leaves_before_the_end() -> None:
    """More than the socket takes at once, to a broker that is slow to read it."""
    batch = bytes(12_000_000)

    async def work() -> int:
        read_on = asyncio.Event()
        arrived: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def behave(peer: Peer) -> None:
            await peer.greet()
            await read_on.wait()
            await peer.request()
            arrived.set_result(await peer.frame())

        async with broker(behave) as slow:
            connection = await connect(slow.address)
            unanswered = ask(connection)
            connection.send_silent(_produce([batch]), at_most=12)
            ending = asyncio.ensure_future(connection.finish(30.0))
            with pytest.raises(Unreachable):
                await unanswered
            read_on.set()
            frame = await arrived
            await ending
            return len(frame)

    assert run(work()) > len(batch)


def test_an_end_that_does_not_come_is_made() -> None:
    async def work() -> None:
        let_go = asyncio.Event()

        async def behave(peer: Peer) -> None:
            await peer.greet()
            await let_go.wait()

        async with broker(behave) as deaf:
            connection = await connect(deaf.address)
            connection.send_silent(_produce([bytes(12_000_000)]), at_most=12)
            await connection.finish(0.05)
            assert not connection.is_open
            let_go.set()

    run(work())


def _produce(batches: list[bytes]) -> ProduceRequest:
    partitions = [
        PartitionProduceData(index=index, records=bytearray(batch)) for index, batch in enumerate(batches)
    ]
    return ProduceRequest(acks=0, topic_data=[TopicProduceData(name="t", partition_data=partitions)])


def test_requests_are_held_back_and_sent_in_order_after() -> None:
    async def work() -> list[str | None]:
        async def behave(peer: Peer) -> None:
            await peer.greet()
            await peer.serve()

        async with broker(behave) as calm:
            connection = await connect(calm.address)
            connection.hold_back()
            held = [ask(connection) for _ in range(2)]
            ahead: asyncio.Future[MetadataResponse] = connection.send_version(
                MetadataRequest(topics=[]), MetadataResponse, 12, 30.0, ahead=True
            )
            found = [(await ahead).cluster_id]
            assert not any(answer.done() for answer in held)
            connection.go_on()
            found += [(await answer).cluster_id for answer in held]
            connection.close()
            return found

    assert run(work()) == ["answer-4", "answer-2", "answer-3"]


def test_what_is_held_back_fails_with_the_connection() -> None:
    async def work() -> None:
        async def behave(peer: Peer) -> None:
            await peer.greet()
            await peer.hang()

        async with broker(behave) as calm:
            connection: Connection = await connect(calm.address)
            connection.hold_back()
            held = ask(connection)
            connection.close()
            with pytest.raises(Unreachable):
                await held

    run(work())
