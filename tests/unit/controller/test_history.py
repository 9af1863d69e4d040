"""A long history of commands, failing disks and crashes, against a plain dict of topics (R8, O5)."""

import errno

import pytest

from everlog.controller.configs import ChangeConfigs, ConfigChange, Operation
from everlog.controller.controller import Controller
from everlog.controller.decisions import Command
from everlog.controller.partitions import CreatePartitions, MorePartitions
from everlog.controller.topics import CreateTopics, DeleteTopics, NewTopic
from everlog.metadata.image import ClusterImage, topic_resource
from everlog.model.errors import Refused, StorageError
from everlog.sim.chance import SimRandom
from everlog.sim.faults import Fault, Kind
from everlog.sim.platter import Loss
from tests.unit.controller.builders import Machine, outcome, started

STEPS = 250

Model = dict[str, tuple[int, str | None]]
"""Topic to its partitions and its retention.ms."""


def model_of(image: ClusterImage) -> Model:
    return {
        name: (len(topic.partitions), image.config(topic_resource(name)).get("retention.ms"))
        for name, topic in image.topics.items()
    }


def step(chance: SimRandom, model: Model) -> tuple[Command[object], Model]:
    """A command by chance, and what the topics are if it succeeds."""
    name = f"topic-{chance.below(6)}"
    then = dict(model)
    match chance.below(4):
        case 0:
            count = 1 + chance.below(4)
            then.setdefault(name, (count, None))
            return CreateTopics((NewTopic(name, count),)), then
        case 1:
            then.pop(name, None)
            return DeleteTopics((name,)), then
        case 2:
            count = 1 + chance.below(8)
            if name in then and count > then[name][0]:
                then[name] = (count, then[name][1])
            return CreatePartitions((MorePartitions(name, count),)), then
        case _:
            value = str(chance.below(1000)) if chance.happens(80) else None
            operation = Operation.SET if value is not None else Operation.DELETE
            if name in then:
                then[name] = (then[name][0], value)
            return ChangeConfigs(
                ((topic_resource(name), (ConfigChange("retention.ms", operation, value),)),)
            ), then


def check(image: ClusterImage) -> None:
    """What holds of every image."""
    assert {topic.id for topic in image.topics.values()} == set(image.topics_by_id)
    assert all(image.topics_by_id[topic.id] is topic for topic in image.topics.values())
    assert image.partition_count == sum(len(topic.partitions) for topic in image.topics.values())
    assert all(image.configs.values()), "no resource is kept without configs"


@pytest.mark.parametrize("seed", range(8))
def test_the_image_is_what_the_acknowledged_commands_made_it(seed: int) -> None:
    chance = SimRandom(seed)
    machine = Machine()
    controller: Controller = started(machine)
    model: Model = {}
    for number in range(STEPS):
        command, then = step(chance, model)
        if chance.happens(8):
            kind = chance.pick([Kind.APPEND, Kind.SYNC, Kind.RENAME])
            machine.files.faults = [
                Fault(kind, chance.pick([errno.ENOSPC, errno.EIO]), times=1 + chance.below(2))
            ]
        try:
            outcome(machine, controller, command)
        except (StorageError, Refused):
            machine.disk_is_well_again()
        else:
            model = then
        machine.files.faults = []
        assert model_of(controller.image) == model
        check(controller.image)
        if chance.happens(5):
            # Nothing is on its way here, so a crash may take only what nobody was told of.
            machine = Machine(
                machine.files.after_crash(chance, Loss.SOME), random=chance.fork(f"life {number}")
            )
            before = model_of(controller.image)
            controller = started(machine)
            model = model_of(controller.image)
            changed = {name for name in {*before, *model} if before.get(name) != model.get(name)}
            # A command that was given up may have reached the disk after all, as the last one of its epoch.
            assert len(changed) <= 1, (before, model)
            check(controller.image)
