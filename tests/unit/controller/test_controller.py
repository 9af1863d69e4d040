"""The controller as a whole: decide, commit, apply, reply; and what a failing disk or a crash leaves (R8)."""

import errno
from contextlib import suppress
from dataclasses import replace

import pytest

from everlog.controller import Controller, Refusal
from everlog.controller.topics import CreateTopics, DeleteTopics, NewTopic, TopicCreated
from everlog.metadata.delta import Changes
from everlog.metadata.image import ClusterImage, ConfigResource, ResourceType, TopicImage
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.peers.address import Address
from everlog.raft.messages import ChangeReply, ReplicaKey, UpdateVoter
from everlog.raft.messages import Endpoint as RaftEndpoint
from everlog.sim.chance import SimRandom
from everlog.sim.faults import Crashed, Fault, Kind, Moment
from everlog.sim.platter import Loss
from tests.unit.controller.builders import DIRECTORY, ME, Machine, outcome, register, some_settings, started


def same_but_for_the_lead(after: ClusterImage, before: ClusterImage) -> bool:
    """Whether nothing has changed but that another lead has begun, which takes an offset."""
    assert after.epoch > before.epoch
    return replace(after, epoch=before.epoch, end_offset=before.end_offset) == before


def creating(*names: str) -> CreateTopics:
    return CreateTopics(tuple(NewTopic(name) for name in names))


def test_a_reply_comes_only_when_the_records_are_on_disk() -> None:
    machine = Machine()
    controller = started(machine)
    replies: list[object] = []

    controller.submit(creating("orders"), replies.append)
    assert not replies
    assert "orders" not in controller.image.topics
    machine.aside.work()
    assert not replies
    machine.aside.finish()

    assert len(replies) == 1
    assert "orders" in controller.image.topics


def test_a_command_sees_what_was_decided_before_it_and_is_not_committed_yet() -> None:
    machine = Machine()
    controller = started(machine)
    outcomes: list[TopicCreated | Refusal] = []

    def done(reply: dict[str, TopicCreated | Refusal] | Refused | StorageError) -> None:
        assert isinstance(reply, dict)
        outcomes.append(reply["orders"])

    controller.submit(creating("orders"), done)
    controller.submit(creating("orders"), done)
    assert not outcomes, "a refusal that rests on an uncommitted topic waits for it"
    machine.aside.run_all()

    first, second = outcomes
    assert isinstance(first, TopicCreated)
    assert isinstance(second, Refusal)
    assert second.code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_commands_that_come_during_a_sync_share_the_next_one() -> None:
    machine = Machine()
    controller = started(machine)
    replies: list[object] = []
    syncs_before = machine.files.operations

    for number in range(100):
        controller.submit(creating(f"topic-{number}"), replies.append)
    jobs = 0
    while machine.aside.work():
        jobs += 1
        machine.aside.finish()

    assert len(replies) == 100
    assert jobs == 2
    assert machine.files.operations - syncs_before < 110, "100 appends, and few syncs"


def test_listeners_hear_of_an_image_before_its_reply_goes() -> None:
    machine = Machine()
    controller = started(machine)
    heard: list[str] = []

    def listener(image: ClusterImage, changes: Changes) -> None:
        assert image is controller.image
        heard.append(f"image with {', '.join(changes.topics)}")

    machine.keeper.subscribe(listener)
    controller.submit(creating("orders"), lambda _: heard.append("reply"))
    machine.aside.run_all()

    assert heard == ["image with orders", "reply"]


def test_replay_gives_the_same_image() -> None:
    machine = Machine()
    controller = started(machine)
    outcome(machine, controller, CreateTopics((NewTopic("orders", 3, configs=(("retention.ms", "1000"),)),)))
    outcome(machine, controller, creating("gone"))
    outcome(machine, controller, DeleteTopics(("gone",)))
    image = controller.image

    again = machine.controller().image

    assert same_but_for_the_lead(again, image)
    assert again.config(ConfigResource(ResourceType.TOPIC, "orders")) == {"retention.ms": "1000"}
    assert list(again.topics) == ["orders"]


def test_each_start_begins_a_new_epoch() -> None:
    machine = Machine()

    epochs = [started(machine).epoch for _ in range(3)]

    assert epochs == sorted(set(epochs))


def test_a_topic_keeps_its_id_over_restarts() -> None:
    machine = Machine()
    controller = started(machine)
    outcome(machine, controller, creating("orders"))
    topic_id = controller.image.topics["orders"].id

    assert started(machine).image.topics["orders"].id == topic_id


def test_a_full_disk_refuses_the_command_and_the_next_one_works_when_there_is_room() -> None:
    machine = Machine()
    controller = started(machine)
    before = controller.image
    machine.files.faults = [Fault(Kind.APPEND, errno.ENOSPC, after_bytes=10)]

    with pytest.raises(StorageError):
        outcome(machine, controller, creating("orders"))
    assert controller.image is before
    machine.files.faults = []

    outcome(machine, controller, creating("orders"))
    assert same_but_for_the_lead(machine.controller().image, controller.image)


def test_a_failed_sync_gives_up_all_that_was_on_its_way() -> None:
    machine = Machine()
    controller = started(machine)
    before = controller.image
    replies: list[object] = []
    machine.files.faults = [Fault(Kind.SYNC, errno.EIO, times=1)]

    for name in ("one", "two"):
        controller.submit(creating(name), replies.append)
    controller.submit(creating("one"), replies.append)
    machine.aside.run_all()

    assert [reply.code for reply in replies if isinstance(reply, Refused)] == [ErrorCode.NOT_CONTROLLER] * 3
    assert same_but_for_the_lead(controller.image, before)


def test_after_a_failed_sync_the_next_command_begins_a_new_epoch() -> None:
    machine = Machine()
    controller = started(machine)
    epoch = controller.epoch
    machine.files.faults = [Fault(Kind.SYNC, errno.EIO, times=1)]
    with pytest.raises(Refused):
        outcome(machine, controller, creating("lost"))

    reply = outcome(machine, controller, creating("kept"))

    assert isinstance(reply["kept"], TopicCreated)
    assert controller.epoch == epoch + 1
    assert list(controller.image.topics) == ["kept"]
    assert same_but_for_the_lead(machine.controller().image, controller.image)


def test_commands_are_refused_as_long_as_the_disk_fails_and_none_is_half_done() -> None:
    machine = Machine()
    controller = started(machine)
    machine.files.faults = [Fault(Kind.SYNC, errno.EIO)]

    for _ in range(3):
        with pytest.raises(Refused):
            outcome(machine, controller, creating("orders"))
    machine.disk_is_well_again()

    assert isinstance(outcome(machine, controller, creating("orders"))["orders"], TopicCreated)


def test_a_refused_command_changes_nothing() -> None:
    machine = Machine()
    controller = started(machine)
    before = controller.image

    reply = outcome(machine, controller, creating("a/b"))

    refusal = reply["a/b"]
    assert isinstance(refusal, Refusal)
    assert refusal.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert controller.image is before


def _run_until_crash(machine: Machine, acknowledged: list[str]) -> Controller:
    controller = started(machine)
    for number in range(3):
        name = f"topic-{number}"

        def done(reply: object, name: str = name) -> None:
            if not isinstance(reply, Refused | StorageError):
                acknowledged.append(name)

        controller.submit(creating(name), done)
        machine.aside.run_all()
    outcome(machine, controller, DeleteTopics(("topic-0",)))
    acknowledged.remove("topic-0")
    return controller


@pytest.mark.parametrize("loss", list(Loss))
def test_a_crash_at_any_operation_loses_nothing_that_was_acknowledged(loss: Loss) -> None:
    """R8, O5: stop at every append, fsync and rename of a start and four commands, then start again."""
    whole = Machine()
    _run_until_crash(whole, [])
    for number in range(whole.files.operations):
        for moment in Moment:
            machine = Machine()
            acknowledged: list[str] = []
            machine.files.crash_at(number, moment)
            # An operation without such a moment lets the run come to its end, which is a crash as well.
            with suppress(Crashed):
                _run_until_crash(machine, acknowledged)
            found = Machine(machine.files.after_crash(SimRandom(number), loss))

            controller = started(found)

            missing = set(acknowledged) - set(controller.image.topics)
            # The delete of topic-0 may have been committed and not been heard of.
            assert missing <= {"topic-0"}, (number, moment)
            topics = controller.image.topics.values()
            assert all(len(topic.partitions) == 1 for topic in topics), "a batch is there whole or not at all"
            assert started(found).image.topics.keys() == controller.image.topics.keys()


def test_a_topic_deleted_and_made_anew_has_another_id_and_no_configs() -> None:
    machine = Machine()
    controller = started(machine)
    outcome(machine, controller, CreateTopics((NewTopic("orders", configs=(("retention.ms", "5"),)),)))
    old = controller.image.topics["orders"]

    (deleted,) = outcome(machine, controller, DeleteTopics(("orders",)))
    outcome(machine, controller, creating("orders"))

    assert isinstance(deleted, TopicImage)
    assert deleted.id == old.id
    assert controller.image.topics["orders"].id != old.id
    assert not controller.image.config(ConfigResource(ResourceType.TOPIC, "orders"))


def test_an_unclean_restart_gives_partitions_new_leader_epochs() -> None:
    machine = Machine()
    controller = started(machine)
    outcome(machine, controller, CreateTopics((NewTopic("orders", 2),)))

    again = started(machine)

    for partition in again.image.topics["orders"].partitions:
        # Nobody led it while the broker was fenced, then the last that led it does.
        assert (partition.leader, partition.isr, partition.leader_epoch) == (ME, (ME,), 2)
        assert partition.recovering


def test_after_a_clean_restart_a_broker_is_eligible_for_what_it_held() -> None:
    machine = Machine()
    controller = started(machine)
    outcome(machine, controller, CreateTopics((NewTopic("orders", 2),)))
    stopped = controller.image.brokers[ME].epoch

    again = machine.controller()
    register(machine, again, previous_epoch=stopped)

    for partition in again.image.topics["orders"].partitions:
        assert (partition.leader, partition.isr, partition.leader_epoch) == (ME, (ME,), 2)
        assert not partition.recovering


def test_twenty_thousand_partitions_are_taken_and_one_more_is_not() -> None:
    machine = Machine()
    controller = started(machine, some_settings(max_partitions="20000"))
    outcome(machine, controller, CreateTopics((NewTopic("one", 10_000),)))
    outcome(machine, controller, CreateTopics((NewTopic("two", 10_000),)))

    refusal = outcome(machine, controller, creating("three"))["three"]

    assert isinstance(refusal, Refusal)
    assert refusal.code is ErrorCode.POLICY_VIOLATION
    assert "max.partitions=20000" in refusal.message
    assert machine.controller().image.partition_count == 20_000


def test_commands_go_on_behind_records_that_the_quorum_wrote_of_itself() -> None:
    machine = Machine()
    controller = started(machine)
    here = (RaftEndpoint("CONTROLLER", Address("127.0.0.1", 9093)),)
    answers: list[object] = []

    machine.quorum.asked(UpdateVoter(ReplicaKey(ME, DIRECTORY), here), answers.append)
    replies: list[object] = []
    controller.submit(creating("before"), replies.append)
    machine.aside.run_all()
    outcome(machine, controller, creating("after"))

    assert isinstance(answers[0], ChangeReply)
    assert answers[0].error is ErrorCode.NONE
    assert len(replies) == 1
    assert set(controller.image.topics) >= {"before", "after"}
    assert controller.image.end_offset == machine.quorum.end_offset
