"""The link to a cluster over real sockets: pace of attempts, other brokers, old metadata, idleness."""

import asyncio
import socket
import ssl
from collections.abc import Callable

import pytest

from everlog.client.core.coordinators import CoordinatorKind
from everlog.client.core.errors import AuthenticationFailed, Closed, TimedOut, Unreachable
from everlog.client.core.metadata import ClusterView
from everlog.client.drive.link import ClusterLink
from everlog.client.drive.pool import Lane
from everlog.model.errors import ErrorCode
from everlog.model.ids import Uuid
from everlog.wire.apis import ApiKey
from everlog.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from everlog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from everlog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.unit.client.drive.unruly import Peer, UnrulyBroker, broker, run, settings_of


def link_to(*brokers: UnrulyBroker, **options: object) -> ClusterLink:
    addresses = ",".join(each.address for each in brokers)
    return ClusterLink(settings_of(bootstrap_servers=addresses, **options))


def cluster_of(*brokers: UnrulyBroker) -> MetadataResponse:
    """Metadata that names these as brokers 1, 2, …, with a topic `t` that the first one leads."""
    named = [
        MetadataResponseBroker(node_id=index, host="127.0.0.1", port=each.port)
        for index, each in enumerate(brokers, 1)
    ]
    partition = MetadataResponsePartition(leader_id=1, leader_epoch=1, replica_nodes=[1], isr_nodes=[1])
    topic = MetadataResponseTopic(name="t", topic_id=Uuid(bytes(15) + b"\x01"), partitions=[partition])
    return MetadataResponse(brokers=named, topics=[topic])


class Cluster:
    """What one broker answers, and what it was asked."""

    def __init__(self) -> None:
        self.members: list[UnrulyBroker] = []
        self.asked: list[ApiKey] = []

    async def behave(self, peer: Peer) -> None:
        await peer.greet()
        while True:
            header = await peer.request()
            self.asked.append(header.api_key)
            if header.api_key == ApiKey.METADATA:
                await peer.answer(header, cluster_of(*self.members))
            elif header.api_key == ApiKey.FIND_COORDINATOR:
                first = self.members[0]
                found = Coordinator(key="g", node_id=1, host="127.0.0.1", port=first.port)
                await peer.answer(header, FindCoordinatorResponse(coordinators=[found]))
            elif header.api_key == ApiKey.HEARTBEAT:
                await peer.answer(header, HeartbeatResponse())
            else:
                return


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


async def seen(condition: Callable[[], bool]) -> None:
    """Wait until something holds; `run` bounds it."""
    while not condition():  # noqa: ASYNC110 - what is waited for sets no event
        await asyncio.sleep(0.005)


def test_bootstrap_servers_are_tried_in_turn() -> None:
    async def work() -> None:
        cluster = Cluster()
        async with broker(cluster.behave) as alive:
            cluster.members = [alive]
            dead = f"127.0.0.1:{free_port()}"
            link = ClusterLink(
                settings_of(bootstrap_servers=f"{dead},no.such.host.invalid:1,{alive.address}")
            )
            view = await link.refresh([])
            assert list(view.brokers) == [1]
            await link.close()

    run(work())


def test_all_failures_are_told_when_no_broker_can_be_reached() -> None:
    async def work() -> None:
        ports = [free_port(), free_port()]
        addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
        link = ClusterLink(settings_of(bootstrap_servers=addresses))
        with pytest.raises(Unreachable) as caught:
            await link.refresh([])
        assert all(str(port) in str(caught.value) for port in ports)
        assert caught.value.retriable
        await link.close()

    run(work())


def test_the_bootstrap_connection_serves_for_the_broker_at_that_address() -> None:
    async def work() -> None:
        cluster = Cluster()
        async with broker(cluster.behave) as alive:
            cluster.members = [alive]
            link = link_to(alive)
            await link.refresh([])
            assert await link.broker(1) is await link.any_broker()
            assert link.ready(1) is not None
            assert alive.connections == 1
            await link.close()

    run(work())


def test_many_callers_share_one_attempt_and_one_that_gives_up_does_not_end_it() -> None:
    async def work() -> None:
        let_in = asyncio.Event()
        cluster = Cluster()

        async def behave(peer: Peer) -> None:
            await let_in.wait()
            await cluster.behave(peer)

        async with broker(behave) as slow:
            cluster.members = [slow]
            link = link_to(slow)
            callers = [asyncio.ensure_future(link.any_broker()) for _ in range(3)]
            await seen(lambda: slow.connections == 1)
            callers[0].cancel()
            let_in.set()
            assert await callers[1] is await callers[2]
            assert slow.connections == 1
            await link.close()

    run(work())


def test_a_caller_that_gives_up_on_one_broker_does_not_end_the_attempt_for_others() -> None:
    async def work() -> None:
        let_in = asyncio.Event()
        cluster = Cluster()

        async def behave(peer: Peer) -> None:
            await let_in.wait()
            await cluster.behave(peer)

        async with broker(cluster.behave) as alive, broker(behave) as slow:
            cluster.members = [alive, slow]
            link = link_to(alive)
            await link.refresh([])
            callers = [asyncio.ensure_future(link.broker(2)) for _ in range(2)]
            await seen(lambda: slow.connections == 1)
            callers[0].cancel()
            await asyncio.sleep(0)
            let_in.set()
            assert (await callers[1]).is_open
            assert slow.connections == 1
            await link.close()

    run(work())


def test_a_broker_that_fails_is_tried_ever_more_slowly() -> None:
    async def work() -> int:
        async def behave(peer: Peer) -> None:
            await peer.request()

        async with broker(behave) as unruly:
            link = link_to(unruly, reconnect_backoff_ms=20, reconnect_backoff_max_ms=100)
            loop = asyncio.get_running_loop()
            end = loop.time() + 1.0
            while loop.time() < end:
                with pytest.raises(Unreachable):
                    await link.any_broker()
            await link.close()
            return unruly.connections

    # 20, 40, 80, 100, 100, … ms, each at least the half of it: 4 at the start, then at most one in 50 ms.
    assert 1 < run(work()) <= 24


def test_a_broker_that_opens_and_then_serves_nothing_is_paced_too() -> None:
    async def work() -> int:
        async def behave(peer: Peer) -> None:
            await peer.greet()
            await peer.request()

        async with broker(behave) as unruly:
            link = link_to(unruly, reconnect_backoff_ms=40, reconnect_backoff_max_ms=100)
            loop = asyncio.get_running_loop()
            end = loop.time() + 1.0
            while loop.time() < end:
                with pytest.raises(Unreachable, match="SASL"):
                    await link.refresh([])
            await link.close()
            return unruly.connections

    assert 1 < run(work()) <= 23


def test_a_connection_that_was_good_is_made_again_without_a_wait() -> None:
    async def work() -> None:
        cluster = Cluster()
        async with broker(cluster.behave) as alive:
            cluster.members = [alive]
            link = link_to(alive, reconnect_backoff_ms=60_000, reconnect_backoff_max_ms=60_000)
            await link.refresh([])
            (await link.broker(1)).close()
            assert (await link.broker(1)).is_open
            await link.close()

    run(work())


def test_metadata_is_asked_for_again_when_it_is_old_and_watchers_hear_of_it() -> None:
    async def work() -> None:
        cluster = Cluster()
        async with broker(cluster.behave) as alive:
            cluster.members = [alive]
            link = link_to(alive, metadata_max_age_ms=40, retry_backoff_ms=5)
            views: list[ClusterView] = []
            link.watch(views.append)
            await link.topics(["t"])
            asked = cluster.asked.count(ApiKey.METADATA)
            await seen(lambda: cluster.asked.count(ApiKey.METADATA) >= asked + 3)
            assert len(views) >= 3
            assert "t" in views[-1].topics
            await link.close()

    run(work())


def test_an_answer_about_some_topics_does_not_make_the_others_younger() -> None:
    async def work() -> None:
        cluster = Cluster()
        async with broker(cluster.behave) as alive:
            cluster.members = [alive]
            link = link_to(alive, metadata_max_age_ms=100, retry_backoff_ms=1)
            await link.topics(["t"])
            link.follow(["u"])
            views: list[ClusterView] = []
            link.watch(views.append)
            own = 0
            while len(views) <= own:
                await link.refresh(["t"])
                own += 1
                await asyncio.sleep(0.01)
            await link.close()

    run(work())


def test_a_topic_is_waited_for_though_no_broker_can_be_reached_yet() -> None:
    async def work() -> None:
        cluster = Cluster()
        port = free_port()
        link = ClusterLink(settings_of(bootstrap_servers=f"127.0.0.1:{port}", retry_backoff_ms=5))
        waiting = asyncio.ensure_future(link.topics(["t"]))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        async with broker(cluster.behave, port=port) as late:
            cluster.members = [late]
            assert [topic.name for topic in await waiting] == ["t"]
            await link.close()

    run(work())


def test_waiting_for_a_topic_ends_with_the_cause() -> None:
    async def work() -> None:
        link = ClusterLink(settings_of(bootstrap_servers=f"127.0.0.1:{free_port()}", retry_backoff_ms=5))
        with pytest.raises(TimedOut, match=r"gave up after 1 s: .*refused the connection"):
            await link.topics(["t"], timeout=1.0)
        await link.close()

    run(work())


def test_many_signs_of_stale_metadata_make_one_request() -> None:
    async def work() -> None:
        cluster = Cluster()
        async with broker(cluster.behave) as alive:
            cluster.members = [alive]
            link = link_to(alive)
            await link.topics(["t"])
            for _ in range(10):
                link.mark_stale()
            views = await asyncio.gather(*(link.fresh() for _ in range(3)))
            assert all("t" in view.topics for view in views)
            assert cluster.asked.count(ApiKey.METADATA) == 2
            await link.close()

    run(work())


def test_a_lost_broker_makes_the_link_ask_the_others_where_things_are() -> None:
    """Broker 1 dies; broker 2 is asked, and the view no longer has broker 1."""

    async def work() -> None:
        first, second = Cluster(), Cluster()
        async with broker(second.behave) as stays:
            async with broker(first.behave) as goes:
                first.members = [stays, goes]
                second.members = [stays]
                link = link_to(goes, stays, retry_backoff_ms=5)
                view = await link.refresh([])
                assert sorted(view.brokers) == [1, 2]
            await seen(lambda: sorted(link.view.brokers) == [1])
            with pytest.raises(Unreachable, match="not in the cluster"):
                await link.broker(2)
            await link.close()

    run(work())


def test_a_cluster_that_has_moved_is_found_by_the_bootstrap_servers() -> None:
    async def work() -> None:
        before, after = Cluster(), Cluster()
        async with broker(before.behave) as old:
            before.members = [old]
            port = free_port()
            addresses = f"{old.address},127.0.0.1:{port}"
            link = ClusterLink(settings_of(bootstrap_servers=addresses, retry_backoff_ms=5))
            await link.refresh([])
        async with broker(after.behave, port=port) as new:
            after.members = [new]
            view = await link.fresh()
            assert [each.port for each in view.brokers.values()] == [port]
            await link.close()

    run(work())


def test_a_broker_may_send_us_back_to_the_bootstrap_servers() -> None:
    """Broker 2 asks for it, KIP-1102; the next try asks broker 1, which is the bootstrap server."""

    async def work() -> None:
        cluster = Cluster()

        async def behave(peer: Peer) -> None:
            await peer.greet()
            header = await peer.request()
            await peer.answer(header, MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED))
            await peer.hang()

        async with broker(cluster.behave) as first, broker(behave) as second:
            cluster.members = [first, second]
            link = link_to(first)
            await link.refresh([])
            await link.broker(2)
            (await link.broker(1)).close()
            with pytest.raises(Unreachable, match="bootstrap"):
                await link.refresh([])
            assert not link.view.brokers
            assert sorted((await link.refresh([])).brokers) == [1, 2]
            await link.close()

    run(work())


def test_idle_connections_are_closed() -> None:
    async def work() -> None:
        cluster = Cluster()
        async with broker(cluster.behave) as alive:
            cluster.members = [alive]
            link = link_to(alive, connections_max_idle_ms=60)
            connection = await link.any_broker()
            await seen(lambda: not connection.is_open)
            assert (await link.refresh([])).brokers
            await link.close()

    run(work())


def test_a_group_has_a_connection_of_its_own() -> None:
    """JoinGroup may wait for minutes, and brokers answer a connection's requests in order."""

    async def work() -> None:
        cluster = Cluster()
        async with broker(cluster.behave) as alive:
            cluster.members = [alive]
            link = link_to(alive)
            await link.refresh([])
            await link.call_coordinator(
                CoordinatorKind.GROUP, "g", HeartbeatRequest(group_id="g"), HeartbeatResponse
            )
            assert link.ready(1, Lane.GROUP) is not link.ready(1)
            assert alive.connections == 2
            await link.close()

    run(work())


def test_a_call_is_bounded_though_no_connection_comes_about() -> None:
    async def work() -> None:
        async def behave(peer: Peer) -> None:
            await peer.hang()

        async with broker(behave) as mute:
            link = link_to(mute)
            with pytest.raises(TimedOut, match=r"no connection to any broker of \S+ within 0\.05 s"):
                await link.call(HeartbeatRequest(), HeartbeatResponse, 0.05)
            await link.close()

    run(work())


def test_closing_ends_what_is_under_way_and_what_comes_after() -> None:
    async def work() -> None:
        async def behave(peer: Peer) -> None:
            await peer.hang()

        async with broker(behave) as mute:
            link = link_to(mute)
            waiting = asyncio.ensure_future(link.refresh([]))
            await seen(lambda: mute.connections == 1)
            await link.close()
            with pytest.raises(Closed):
                await waiting
            with pytest.raises(Closed):
                await link.refresh([])
            with pytest.raises(Closed):
                await link.fresh()
            await link.close()

    run(work())


def test_what_no_retry_will_help_is_told_before_what_may_pass() -> None:
    """One bootstrap server is down, another does not speak TLS: the latter is what must be put right."""

    async def work() -> None:
        async def behave(peer: Peer) -> None:
            await peer.raw(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await peer.hang()

        async with broker(behave) as plain:
            dead = f"127.0.0.1:{free_port()}"
            link = ClusterLink(
                settings_of(
                    bootstrap_servers=f"{dead},{plain.address}",
                    security_protocol="SSL",
                    ssl_context=ssl.create_default_context(),
                )
            )
            with pytest.raises(AuthenticationFailed, match="not TLS"):
                await link.refresh([])
            await link.close()

    run(work())
