"""Errands reach whichever controller is active, wait while there is none, and end once."""

from itertools import pairwise

import pytest

from everlog.model.errors import ErrorCode, Refused
from everlog.wire.codec import encode_response
from everlog.wire.messages.alter_partition import AlterPartitionRequest
from everlog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from everlog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

from .scripted_quorum import ChannelWorld

BEAT = BrokerHeartbeatRequest(broker_id=1, broker_epoch=7)
BEATEN = BrokerHeartbeatResponse(is_fenced=False)
NOT_CONTROLLER = BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER)

Heard = list[object]


@pytest.fixture
def world() -> ChannelWorld:
    return ChannelWorld()


@pytest.fixture
def heard() -> Heard:
    return []


def ask(world: ChannelWorld, heard: Heard, timeout_ms: int = 5_000) -> None:
    world.channel.ask(BEAT, 1, heard.append, timeout_ms)
    assert heard == [], "nobody is told before the call has returned"
    world.settle()


def refusal(heard: Heard) -> Refused:
    (only,) = heard
    assert isinstance(only, Refused)
    return only


class TestHere:
    def test_the_request_goes_to_this_nodes_desk_as_it_is(self, world: ChannelWorld, heard: Heard) -> None:
        world.quorum.leader, world.quorum.is_active = 1, True
        ask(world, heard)
        ((request, exchange),) = world.desk.served
        assert request is BEAT
        assert (exchange.api_version, exchange.connection, exchange.abandoned) == (1, 0, False)
        exchange.answer(BEATEN)
        assert heard == [BEATEN]
        assert world.links == []
        assert world.channel.under_way == 0

    def test_an_answer_that_a_handler_has_encoded_is_read(self, world: ChannelWorld, heard: Heard) -> None:
        world.quorum.leader, world.quorum.is_active = 1, True
        ask(world, heard)
        world.desk.served[0][1].answer_parts((encode_response(BEATEN, 1, 0),))
        assert heard == [BEATEN]

    def test_it_waits_until_this_node_serves(self, world: ChannelWorld, heard: Heard) -> None:
        world.quorum.leader = 1
        ask(world, heard)
        world.pass_time(100)
        assert (world.desk.served, world.links) == ([], [])
        world.quorum.is_active = True
        world.pass_time(20)
        assert len(world.desk.served) == 1

    def test_a_lead_that_is_lost_meanwhile_is_looked_for_elsewhere(
        self, world: ChannelWorld, heard: Heard
    ) -> None:
        world.quorum.leader, world.quorum.is_active = 1, True
        ask(world, heard)
        world.quorum.leader, world.quorum.is_active = 2, False
        world.desk.served[0][1].answer(NOT_CONTROLLER)
        assert heard == []
        world.pass_time(20)
        world.link.open()
        world.link.answer(0, BEATEN)
        assert heard == [BEATEN]


class TestThere:
    def test_the_request_goes_to_the_leader(self, world: ChannelWorld, heard: Heard) -> None:
        world.quorum.leader = 2
        ask(world, heard)
        assert (world.link.host, world.link.port) == ("node-2.test", 9093)
        assert world.link.requests() == [BEAT]
        world.link.open()
        world.link.answer(0, BEATEN)
        assert heard == [BEATEN]
        assert world.desk.served == []

    def test_a_node_without_a_desk_asks_others(self, heard: Heard) -> None:
        world = ChannelWorld(with_desk=False)
        world.quorum.leader = 3
        ask(world, heard)
        assert world.link.host == "node-3.test"

    def test_errors_that_are_not_about_who_leads_are_the_answer(
        self, world: ChannelWorld, heard: Heard
    ) -> None:
        world.quorum.leader = 2
        ask(world, heard)
        world.link.open()
        stale = BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        world.link.answer(0, stale)
        assert heard == [stale]

    def test_a_beat_does_not_wait_for_what_was_asked_before_it(
        self, world: ChannelWorld, heard: Heard
    ) -> None:
        world.quorum.leader = 2
        world.channel.ask(AlterPartitionRequest(broker_id=1), 3, lambda _: None, 5_000)
        ask(world, heard)
        assert len(world.links) == 2
        world.link.open()
        world.link.answer(0, BEATEN)
        assert heard == [BEATEN]


class TestLookingAgain:
    def test_waits_while_nobody_leads(self, world: ChannelWorld, heard: Heard) -> None:
        ask(world, heard)
        world.pass_time(3_000)
        assert (heard, world.links) == ([], [])
        world.quorum.leader = 3
        world.pass_time(20)
        assert world.link.host == "node-3.test"

    def test_whoever_is_not_the_controller_is_asked_again_after_waits_that_grow(
        self, world: ChannelWorld, heard: Heard
    ) -> None:
        world.quorum.leader = 2
        ask(world, heard, timeout_ms=60_000)
        world.link.open()
        asked_at: list[int] = []
        for number in range(8):
            while len(world.link.frames) <= number:
                world.pass_time(1)
            asked_at.append(world.clock.now())
            world.link.answer(number, NOT_CONTROLLER)
        waits = [after - before for before, after in pairwise(asked_at)]
        expected = [20, 40, 80, 160, 320, 500, 500]
        assert all(wanted <= wait <= wanted + 20 for wait, wanted in zip(waits, expected, strict=True)), waits
        assert heard == []

    def test_a_new_leader_ends_the_wait(self, world: ChannelWorld, heard: Heard) -> None:
        world.quorum.leader = 2
        ask(world, heard, timeout_ms=60_000)
        for _ in range(8):
            world.link.lose("has hung up")
            world.pass_time(520)
        world.link.lose("has hung up")
        attempts = len(world.links)
        world.quorum.leader = 3
        world.pass_time(20)
        assert len(world.links) == attempts + 1
        assert world.link.host == "node-3.test"

    def test_not_controller_of_every_topic_is_heard_too(self, world: ChannelWorld, heard: Heard) -> None:
        world.quorum.leader = 2
        request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1)])
        world.channel.ask(request, 7, heard.append, 5_000)
        world.settle()
        world.link.open()
        refused = CreatableTopicResult(name="t", error_code=ErrorCode.NOT_CONTROLLER)
        world.link.answer(0, CreateTopicsResponse(topics=[refused]))
        assert heard == []
        world.pass_time(40)
        made = CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_message=None)])
        world.link.answer(1, made)
        assert heard == [made]

    def test_a_silent_controller_is_given_up_some_time_after_it_has_a_successor(
        self, world: ChannelWorld, heard: Heard
    ) -> None:
        world.quorum.leader = 2
        ask(world, heard, timeout_ms=30_000)
        silent = world.link
        silent.open()
        world.pass_time(1_000)
        world.quorum.leader = 3
        world.pass_time(400)
        assert world.link is silent, "it may still answer"
        world.pass_time(200)
        assert world.link.host == "node-3.test"
        silent.answer(0, BEATEN)
        assert heard == [], "the old one is not heard any more"
        world.link.open()
        world.link.answer(0, BEATEN)
        assert heard == [BEATEN]

    def test_a_controller_that_leads_anew_is_asked_anew(self, world: ChannelWorld, heard: Heard) -> None:
        world.quorum.leader = 2
        ask(world, heard, timeout_ms=30_000)
        world.link.open()
        world.pass_time(1_000)
        assert len(world.link.frames) == 1
        # Its machine has lost its power and is back: nobody has closed the connection, nobody will answer.
        world.quorum.epoch += 1
        world.pass_time(600)
        assert len(world.link.frames) == 2

    def test_an_old_controller_may_answer_while_its_successor_is_already_known(
        self, world: ChannelWorld, heard: Heard
    ) -> None:
        world.quorum.leader = 2
        ask(world, heard)
        world.link.open()
        world.quorum.leader = 3
        world.pass_time(100)
        world.link.answer(0, BEATEN)
        assert heard == [BEATEN]
        world.pass_time(5_000)
        assert len(world.links) == 1


class TestTime:
    def test_without_a_controller_it_times_out(self, world: ChannelWorld, heard: Heard) -> None:
        ask(world, heard, timeout_ms=300)
        world.pass_time(299)
        assert heard == []
        world.pass_time(21)
        assert refusal(heard).code == ErrorCode.REQUEST_TIMED_OUT
        assert str(refusal(heard)) == (
            "no controller has done BROKER_HEARTBEAT within 300 ms: there is no active controller"
        )
        assert world.channel.under_way == 0

    def test_the_last_reason_is_told(self, world: ChannelWorld, heard: Heard) -> None:
        world.quorum.leader = 2
        ask(world, heard, timeout_ms=15)
        world.link.lose("refused the connection", refused=True)
        world.pass_time(40)
        assert "node-2.test:9093 refused the connection" in str(refusal(heard))

    def test_an_answer_that_comes_too_late_is_not_heard(self, world: ChannelWorld, heard: Heard) -> None:
        world.quorum.leader = 2
        ask(world, heard, timeout_ms=100)
        world.link.open()
        world.pass_time(120)
        world.link.answer(0, BEATEN)
        assert refusal(heard).code == ErrorCode.REQUEST_TIMED_OUT

    def test_the_little_time_of_one_does_not_end_the_connection_of_others(
        self, world: ChannelWorld, heard: Heard
    ) -> None:
        world.quorum.leader = 2
        ask(world, [], timeout_ms=50)
        ask(world, heard, timeout_ms=5_000)
        world.link.open()
        world.pass_time(200)
        assert not world.link.closed
        world.link.answer(0, BEATEN)
        world.link.answer(1, BEATEN)
        assert heard == [BEATEN]

    def test_nothing_rings_when_nothing_is_under_way(self, world: ChannelWorld, heard: Heard) -> None:
        world.quorum.leader, world.quorum.is_active = 1, True
        ask(world, heard)
        world.desk.served[0][1].answer(BEATEN)
        world.pass_time(1_000)
        assert world.alarm.deadline is None
