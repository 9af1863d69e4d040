"""An image becomes records and the records the same image, which snapshots rest on (R8)."""

from dataclasses import fields, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from everlog.metadata.delta import apply
from everlog.metadata.image import (
    EMPTY_IMAGE,
    BrokerImage,
    ClusterImage,
    ConfigResource,
    ControllerImage,
    Endpoint,
    PartitionImage,
    TopicImage,
)
from everlog.metadata.image_records import image_of, image_records
from everlog.metadata.records import decode_record, encode_record
from everlog.model.ids import BrokerId, LeaderEpoch, Offset, ProducerId, Uuid

NAMES = st.text("abcdefg.-_", min_size=1, max_size=8)
SMALL = st.integers(0, 2**31 - 1)
NODES = st.lists(st.integers(0, 9), max_size=4, unique=True).map(tuple)
UUIDS = st.binary(min_size=16, max_size=16).map(Uuid)


@st.composite
def partitions(draw: st.DrawFn) -> PartitionImage:
    replicas = draw(NODES)
    return PartitionImage(
        replicas=replicas,
        isr=draw(NODES),
        leader=draw(st.integers(-1, 9)),
        leader_epoch=LeaderEpoch(draw(SMALL)),
        partition_epoch=draw(SMALL),
        directories=tuple(draw(UUIDS) for _ in replicas),
        removing=draw(NODES),
        adding=draw(NODES),
        recovering=draw(st.booleans()),
        eligible_leaders=draw(NODES),
        last_known_eligible=draw(NODES),
    )


@st.composite
def brokers(draw: st.DrawFn) -> BrokerImage:
    return BrokerImage(
        id=BrokerId(draw(st.integers(0, 9))),
        epoch=draw(SMALL),
        incarnation=draw(UUIDS),
        endpoints=tuple(
            Endpoint(name, "host", draw(st.integers(0, 65_535)), draw(st.integers(0, 3)))
            for name in draw(st.lists(NAMES, max_size=3))
        ),
        rack=draw(st.none() | NAMES),
        fenced=draw(st.booleans()),
        in_controlled_shutdown=draw(st.booleans()),
        directories=tuple(draw(st.lists(UUIDS, max_size=2))),
        features=draw(st.dictionaries(NAMES, st.tuples(st.integers(0, 3), st.integers(3, 9)), max_size=2)),
    )


@st.composite
def images(draw: st.DrawFn) -> ClusterImage:
    topics = {
        name: TopicImage(name, Uuid(bytes([index + 1]) * 16), tuple(draw(st.lists(partitions(), max_size=3))))
        for index, name in enumerate(draw(st.lists(NAMES, max_size=4, unique=True)))
    }
    values = st.dictionaries(NAMES, NAMES, min_size=1, max_size=2)
    resources = st.tuples(st.sampled_from([2, 4, 32]), NAMES | st.just("")).map(
        lambda one: ConfigResource(*one)
    )
    features = draw(st.dictionaries(NAMES, st.integers(1, 30), max_size=2))
    end = Offset(draw(st.integers(1, 2**40)))
    return ClusterImage(
        end_offset=end,
        epoch=draw(SMALL),
        brokers={one.id: one for one in draw(st.lists(brokers(), max_size=3))},
        topics=topics,
        topics_by_id={one.id: one for one in topics.values()},
        configs=draw(st.dictionaries(resources, values, max_size=3)),
        features=features,
        features_offset=Offset(end - 1 if features else -1),
        next_producer_id=ProducerId(draw(st.integers(0, 2**40))),
        partition_count=sum(len(one.partitions) for one in topics.values()),
        controllers={
            one.id: ControllerImage(one.id, one.incarnation, one.endpoints, one.features)
            for one in draw(st.lists(brokers(), max_size=2))
        },
    )


@settings(max_examples=60, deadline=None)
@given(images())
def test_an_image_and_its_records_are_the_same(image: ClusterImage) -> None:
    records = [decode_record(encode_record(record)) for record in image_records(image)]

    found = image_of(records, image.end_offset, image.epoch)

    assert found == image
    assert list(found.topics) == list(image.topics)
    assert found == replace(
        apply(EMPTY_IMAGE, records, image.epoch),
        end_offset=image.end_offset,
        features_offset=image.features_offset,
    )


def test_nothing_was_added_to_the_image_that_its_records_leave_out() -> None:
    # Whoever adds a field adds its records here, or a node that starts from a snapshot goes without it.
    assert {one.name for one in fields(ClusterImage)} == {
        "brokers",
        "configs",
        "controllers",
        "end_offset",
        "epoch",
        "features",
        "features_offset",
        "next_producer_id",
        "partition_count",
        "topics",
        "topics_by_id",
    }
    assert len(fields(BrokerImage)) == 9
    assert len(fields(ControllerImage)) == 4
    assert len(fields(PartitionImage)) == 11
    assert len(fields(TopicImage)) == 3
