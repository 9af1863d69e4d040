"""What is asked of another node is answered in order, or fails, once, in time."""

import struct
from itertools import pairwise

import pytest

from everlog.model.errors import ErrorCode, ProtocolError
from everlog.peers.address import Address, Unreachable
from everlog.peers.peer import GONE_WAITS_MS, MAX_WAIT_MS, MAX_WAITING, Peer
from everlog.wire.api_keys import ApiKey
from everlog.wire.codec import encode_request, encode_response
from everlog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from everlog.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

from .scripted import ScriptedWorld

HERE = Address("node-2.test", 9093)
BEAT = BrokerHeartbeatRequest(broker_id=1, broker_epoch=7)
BEATEN = BrokerHeartbeatResponse(error_code=ErrorCode.NONE, is_fenced=False)

Heard = list[object]


@pytest.fixture
def world() -> ScriptedWorld:
    return ScriptedWorld()


@pytest.fixture
def peer(world: ScriptedWorld) -> Peer:
    return world.peers.at(HERE)


@pytest.fixture
def heard() -> Heard:
    return []


def ask(peer: Peer, heard: Heard, timeout_ms: int = 1_000) -> None:
    peer.ask(BEAT, 1, timeout_ms, heard.append)


def failures(heard: Heard) -> list[Unreachable]:
    assert all(isinstance(one, Unreachable) for one in heard), heard
    return [one for one in heard if isinstance(one, Unreachable)]


class TestAsking:
    def test_connects_when_first_asked_and_keeps_the_connection(
        self, world: ScriptedWorld, peer: Peer, heard: Heard
    ) -> None:
        assert world.links == []
        ask(peer, heard)
        assert [(link.host, link.port) for link in world.links] == [("node-2.test", 9093)]
        assert not peer.is_connected
        world.links[0].open()
        assert peer.is_connected
        world.links[0].answer(0, BEATEN)
        ask(peer, heard)
        world.links[0].answer(1, BEATEN)
        assert heard == [BEATEN, BEATEN]
        assert len(world.links) == 1

    def test_sends_the_request_as_it_is_with_our_name(
        self, world: ScriptedWorld, peer: Peer, heard: Heard
    ) -> None:
        ask(peer, heard)
        (header,) = world.links[0].headers()
        assert (header.api_key, header.api_version) == (ApiKey.BROKER_HEARTBEAT, 1)
        assert header.client_id == "node-1"
        assert world.links[0].requests() == [BEAT]

    def test_answers_go_to_requests_in_order(self, world: ScriptedWorld, peer: Peer) -> None:
        told: list[tuple[str, object]] = []
        peer.ask(BEAT, 1, 1_000, lambda answer: told.append(("first", answer)))
        peer.ask(DescribeClusterRequest(), 1, 1_000, lambda answer: told.append(("second", answer)))
        assert peer.in_flight == 2
        world.links[0].open()
        world.links[0].answer(0, BEATEN)
        described = DescribeClusterResponse(cluster_id="c", error_message=None)
        world.links[0].answer(1, described)
        assert told == [("first", BEATEN), ("second", described)]
        assert peer.in_flight == 0

    def test_the_same_address_and_lane_are_the_same_peer(self, world: ScriptedWorld, peer: Peer) -> None:
        assert world.peers.at(Address("node-2.test", 9093)) is peer
        assert world.peers.at(HERE, lane="fetch") is not peer
        assert world.peers.at(HERE, lane="fetch") is world.peers.at(HERE, lane="fetch")

    def test_a_lane_has_a_connection_of_its_own(self, world: ScriptedWorld, peer: Peer, heard: Heard) -> None:
        ask(peer, heard)
        ask(world.peers.at(HERE, lane="fetch"), heard)
        assert len(world.links) == 2

    def test_more_than_can_wait_is_refused(self, world: ScriptedWorld, peer: Peer, heard: Heard) -> None:
        for _ in range(MAX_WAITING):
            ask(peer, [])
        ask(peer, heard)
        assert heard == []
        world.settle()
        (failure,) = failures(heard)
        assert failure.unsent
        assert "owes 10000 answers" in failure.reason


class TestFrames:
    def test_a_frame_gets_the_next_correlation_id_and_goes_out_as_it_is_otherwise(
        self, world: ScriptedWorld, peer: Peer, heard: Heard
    ) -> None:
        ask(peer, heard)
        frame = encode_request(BEAT, 1, 0, "somebody")
        peer.ask_frame([frame[:20], memoryview(frame)[20:]], 1_000, lambda _: None)
        first, second = world.links[0].headers()
        assert second.correlation_id == first.correlation_id + 1
        sent = world.links[0].frames[1]
        assert sent[:8] == frame[:8]
        assert sent[12:] == frame[12:]

    def test_the_answers_frame_comes_without_its_size(self, world: ScriptedWorld, peer: Peer) -> None:
        got: list[bytes] = []

        def done(frame: memoryview | Unreachable) -> None:
            assert isinstance(frame, memoryview)
            got.append(bytes(frame))

        peer.ask_frame([encode_request(BEAT, 1, 0, None)], 1_000, done)
        world.links[0].open()
        world.links[0].answer(0, BEATEN)
        correlation_id = world.links[0].headers()[0].correlation_id
        assert got == [encode_response(BEATEN, 1, correlation_id)[4:]]

    def test_whoever_cannot_read_a_frame_ends_the_connection_and_is_not_told_twice(
        self, world: ScriptedWorld, peer: Peer, heard: Heard
    ) -> None:
        calls: list[object] = []

        def done(frame: memoryview | Unreachable) -> None:
            calls.append(frame)
            raise ProtocolError("no records where records are due")

        peer.ask_frame([encode_request(BEAT, 1, 0, None)], 1_000, done)
        ask(peer, heard)
        world.links[0].open()
        world.links[0].answer(0, BEATEN)
        assert len(calls) == 1
        assert world.links[0].closed
        assert "no records where records are due" in failures(heard)[0].reason


class TestLoss:
    def test_a_lost_connection_fails_all_that_was_asked_on_it_once(
        self, world: ScriptedWorld, peer: Peer, heard: Heard
    ) -> None:
        ask(peer, heard)
        ask(peer, heard)
        world.links[0].open()
        world.links[0].lose("has hung up")
        world.pass_time(5_000)
        assert [str(one) for one in failures(heard)] == ["node-2.test:9093 has hung up"] * 2
        assert [one.unsent for one in failures(heard)] == [False, False]

    def test_what_was_asked_before_the_connection_opened_was_not_sent(
        self, world: ScriptedWorld, peer: Peer, heard: Heard
    ) -> None:
        ask(peer, heard)
        world.links[0].lose("nobody listens", refused=True)
        (failure,) = failures(heard)
        assert failure.unsent
        assert failure.refused

    def test_whoever_wants_to_know_of_losses_is_told_after_the_requests_are(
        self, world: ScriptedWorld, peer: Peer, heard: Heard
    ) -> None:
        peer.on_lost(lambda failure: heard.append(("lost", failure.reason)))
        ask(peer, heard)
        world.links[0].open()
        world.links[0].lose("has hung up")
        assert isinstance(heard[0], Unreachable)
        assert heard[1:] == [("lost", "node-2.test:9093 has hung up")]

    def test_a_connection_that_served_is_made_again_at_once(
        self, world: ScriptedWorld, peer: Peer, heard: Heard
    ) -> None:
        ask(peer, heard)
        world.links[0].open()
        world.links[0].answer(0, BEATEN)
        world.links[0].lose()
        ask(peer, heard)
        assert len(world.links) == 2

    def test_asking_again_when_told_of_the_loss_makes_a_new_connection(
        self, world: ScriptedWorld, peer: Peer, heard: Heard
    ) -> None:
        peer.ask(BEAT, 1, 1_000, lambda _: ask(peer, heard))
        world.links[0].open()
        world.links[0].lose()
        assert heard == []
        world.pass_time(10)
        world.links[1].open()
        world.links[1].answer(0, BEATEN)
        assert heard == [BEATEN]

    def test_an_old_connection_has_nothing_more_to_say(
        self, world: ScriptedWorld, peer: Peer, heard: Heard
    ) -> None:
        ask(peer, heard, timeout_ms=100)
        world.links[0].open()
        world.pass_time(100)
        heard.clear()
        ask(peer, heard)
        world.pass_time(10)
        world.links[0].answer(0, BEATEN)
        world.links[0].owner.lost("late", refused=True)
        assert heard == []
        assert len(world.links) == 2


class TestUnreadable:
    @pytest.mark.parametrize("frame", [b"", b"\0\0", struct.pack(">i", 99), struct.pack(">i", 1) + b"\xff"])
    def test_an_answer_that_is_none_ends_the_connection(
        self, world: ScriptedWorld, peer: Peer, heard: Heard, frame: bytes
    ) -> None:
        ask(peer, heard)
        ask(peer, heard)
        world.links[0].open()
        world.links[0].owner.received(memoryview(frame))
        assert len(failures(heard)) == 2
        assert world.links[0].closed

    def test_an_answer_to_another_request_is_not_taken_for_this_ones(
        self, world: ScriptedWorld, peer: Peer, heard: Heard
    ) -> None:
        ask(peer, heard)
        ask(peer, heard)
        world.links[0].open()
        world.links[0].answer(1, BEATEN)
        assert len(failures(heard)) == 2
        assert world.links[0].closed

    def test_an_answer_that_nobody_asked_for_ends_the_connection(
        self, world: ScriptedWorld, peer: Peer, heard: Heard
    ) -> None:
        ask(peer, heard)
        world.links[0].open()
        world.links[0].answer(0, BEATEN)
        world.links[0].answer(0, BEATEN)
        assert heard == [BEATEN]
        assert world.links[0].closed


class TestTime:
    def test_a_request_that_is_not_answered_in_time_ends_its_connection(
        self, world: ScriptedWorld, peer: Peer, heard: Heard
    ) -> None:
        ask(peer, heard, timeout_ms=300)
        ask(peer, heard, timeout_ms=9_000)
        world.links[0].open()
        world.pass_time(299)
        assert heard == []
        world.pass_time(1)
        assert world.links[0].closed
        assert [one.reason for one in failures(heard)] == [
            "node-2.test:9093 did not answer BROKER_HEARTBEAT within 300 ms"
        ] * 2

    def test_the_time_of_a_later_request_may_be_over_first(
        self, world: ScriptedWorld, peer: Peer, heard: Heard
    ) -> None:
        ask(peer, heard, timeout_ms=9_000)
        ask(peer, heard, timeout_ms=100)
        world.links[0].open()
        world.pass_time(100)
        assert len(failures(heard)) == 2

    def test_the_time_that_connecting_takes_counts(
        self, world: ScriptedWorld, peer: Peer, heard: Heard
    ) -> None:
        ask(peer, heard, timeout_ms=300)
        world.pass_time(300)
        assert failures(heard)[0].unsent
        assert world.links[0].closed

    def test_an_answer_in_time_is_the_end_of_it(self, world: ScriptedWorld, peer: Peer, heard: Heard) -> None:
        ask(peer, heard, timeout_ms=300)
        world.links[0].open()
        world.pass_time(299)
        world.links[0].answer(0, BEATEN)
        world.pass_time(10_000)
        assert heard == [BEATEN]
        assert not world.links[0].closed
        assert world.alarm.deadline is None


class TestWaiting:
    def test_attempts_that_come_to_nothing_wait_longer_and_longer(
        self, world: ScriptedWorld, peer: Peer
    ) -> None:
        began: list[int] = []
        for _ in range(10):
            attempts = len(world.links)
            ask(peer, [], timeout_ms=60_000)
            while len(world.links) == attempts:
                world.pass_time(1)
            began.append(world.clock.now())
            world.links[-1].lose("the host is not there")
        waits = [after - before for before, after in pairwise(began)]
        assert waits == [10, 20, 40, 80, 160, 320, MAX_WAIT_MS, MAX_WAIT_MS, MAX_WAIT_MS]

    def test_connections_that_open_and_never_serve_wait_too(self, world: ScriptedWorld, peer: Peer) -> None:
        ask(peer, [])
        world.links[0].open()
        world.links[0].lose()
        ask(peer, [])
        assert len(world.links) == 1
        world.pass_time(10)
        assert len(world.links) == 2

    def test_where_nobody_listened_requests_fail_until_the_next_attempt_is_due(
        self, world: ScriptedWorld, peer: Peer, heard: Heard
    ) -> None:
        ask(peer, [])
        world.links[0].lose("refused the connection", refused=True)
        ask(peer, heard)
        assert heard == [], "nobody is told before the call has returned"
        world.settle()
        (failure,) = failures(heard)
        assert failure.refused
        assert failure.unsent
        world.pass_time(10)
        assert len(world.links) == 1, "nobody has asked for anything"
        ask(peer, heard)
        assert len(world.links) == 2

    def test_what_waits_for_an_attempt_fails_when_its_own_time_is_over(
        self, world: ScriptedWorld, peer: Peer, heard: Heard
    ) -> None:
        ask(peer, [])
        world.links[0].lose("the host is not there")
        ask(peer, heard, timeout_ms=4)
        world.pass_time(4)
        assert failures(heard)[0].unsent
        assert len(world.links) == 1

    def test_an_answer_makes_all_waits_short_again(
        self, world: ScriptedWorld, peer: Peer, heard: Heard
    ) -> None:
        for _ in range(5):
            ask(peer, [], timeout_ms=10_000)
            world.pass_time(MAX_WAIT_MS)
            world.links[-1].lose("the host is not there")
        ask(peer, heard, timeout_ms=10_000)
        world.pass_time(MAX_WAIT_MS)
        world.links[-1].open()
        world.links[-1].answer(0, BEATEN)
        attempts = len(world.links)
        world.links[-1].lose()
        ask(peer, [])
        assert len(world.links) == attempts + 1


class TestProbe:
    @pytest.mark.parametrize("refused", [True, False])
    def test_says_whether_it_was_refused(self, world: ScriptedWorld, peer: Peer, refused: bool) -> None:
        said: list[bool] = []
        peer.probe(said.append)
        world.links[0].lose("x", refused=refused)
        assert said == [refused]

    def test_closes_what_it_has_opened(self, world: ScriptedWorld, peer: Peer) -> None:
        said: list[bool] = []
        peer.probe(said.append)
        world.links[0].open()
        assert said == [False]
        assert world.links[0].closed

    def test_silence_is_no_refusal(self, world: ScriptedWorld, peer: Peer) -> None:
        said: list[bool] = []
        peer.probe(said.append)
        world.pass_time(999)
        assert said == []
        world.pass_time(1)
        assert said == [False]
        assert world.links[0].closed
        world.pass_time(60_000)
        assert said == [False]

    def test_does_not_touch_the_connection_or_its_waits(
        self, world: ScriptedWorld, peer: Peer, heard: Heard
    ) -> None:
        peer.probe(lambda _: None)
        world.links[0].lose("x", refused=True)
        ask(peer, heard)
        assert len(world.links) == 2


class TestFindingOutIfGone:
    def test_a_refusal_says_it_at_once(self, world: ScriptedWorld, peer: Peer) -> None:
        said: list[bool] = []
        peer.find_out_if_gone(said.append)
        world.links[0].lose("refused the connection", refused=True)
        assert said == [True]
        world.pass_time(5_000)
        assert (said, len(world.links)) == ([True], 1)

    def test_a_process_on_its_way_out_may_take_a_few_more(self, world: ScriptedWorld, peer: Peer) -> None:
        said: list[bool] = []
        peer.find_out_if_gone(said.append)
        world.links[0].open()
        world.pass_time(10)
        world.links[1].lose("reset", refused=False)
        assert said == []
        world.pass_time(20)
        world.links[2].lose("refused the connection", refused=True)
        assert said == [True]

    def test_one_that_stays_is_not_gone(self, world: ScriptedWorld, peer: Peer) -> None:
        said: list[bool] = []
        peer.find_out_if_gone(said.append)
        for _ in range(len(GONE_WAITS_MS) + 1):
            assert said == []
            world.link.open()
            world.pass_time(250)
        assert said == [False]
        world.pass_time(2_000)
        assert (said, world.alarm.deadline) == ([False], None)

    def test_nobody_is_told_after_the_close(self, world: ScriptedWorld, peer: Peer) -> None:
        said: list[bool] = []
        peer.find_out_if_gone(said.append)
        world.links[0].open()
        world.peers.close()
        world.pass_time(1_000)
        assert (said, len(world.links)) == ([], 1)


class TestTheEnd:
    def test_a_forgotten_address_fails_what_was_asked_there(
        self, world: ScriptedWorld, peer: Peer, heard: Heard
    ) -> None:
        ask(peer, heard)
        world.peers.forget(HERE)
        assert len(failures(heard)) == 1
        assert world.links[0].closed
        ask(peer, heard)
        world.settle()
        assert len(failures(heard)) == 2
        assert world.peers.at(HERE) is not peer

    def test_nobody_is_told_of_anything_after_the_close(
        self, world: ScriptedWorld, peer: Peer, heard: Heard
    ) -> None:
        ask(peer, heard)
        peer.probe(heard.append)
        peer.on_lost(heard.append)
        world.peers.close()
        assert all(link.closed for link in world.links)
        world.peers.tick(world.clock.now())
        assert heard == []


def test_an_address_is_written_as_clients_write_it() -> None:
    assert str(Address("node.test", 9092)) == "node.test:9092"
    assert str(Address("::1", 9092)) == "[::1]:9092"
