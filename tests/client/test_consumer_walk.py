"""A consumer that seeks, pauses, polls and is reassigned at random keeps to what the log holds (C1, C7)."""

import random

import pytest

from everlog import Consumer, TopicPartition
from tests.client.conftest import NewTopic
from tests.client.log_writing import write

LENGTH = 400
PARTITIONS = 3
STEPS = 250


@pytest.mark.parametrize("seed", range(3))
def test_c7_a_random_walk_sees_what_a_model_sees(bootstrap: str, new_topic: NewTopic, seed: int) -> None:
    chance = random.Random(seed)
    topic = new_topic(PARTITIONS)
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    for place in places:
        values = [b"%d-%d" % (place.partition, offset) for offset in range(LENGTH)]
        write(
            bootstrap, topic, values, partition=place.partition, batch_num_messages=chance.choice([1, 7, 100])
        )
    next_offset = dict.fromkeys(places, 0)
    paused: set[TopicPartition] = set()
    assigned = set(places)
    with Consumer(
        bootstrap,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=20,
        max_poll_records=chance.choice([1, 10, 500]),
        max_partition_fetch_bytes=2000,
    ) as consumer:
        consumer.assign(places)
        for _ in range(STEPS):
            place = chance.choice(sorted(assigned))
            match chance.choice(
                ["poll"] * 12 + ["seek", "pause", "resume", "begin", "end", "assign", "chunks"]
            ):
                case "poll":
                    for record in consumer.poll(0.02, chance.choice([None, 1, 3])):
                        at = TopicPartition(record.topic, record.partition)
                        assert at in assigned - paused
                        assert record.offset == next_offset[at], "none is left out and none comes twice"
                        assert record.value == b"%d-%d" % (at.partition, record.offset)
                        next_offset[at] += 1
                case "seek":
                    next_offset[place] = chance.randrange(LENGTH)
                    consumer.seek(place, next_offset[place])
                case "pause":
                    consumer.pause(place)
                    paused.add(place)
                case "resume":
                    consumer.resume(place)
                    paused.discard(place)
                case "begin":
                    consumer.seek_to_beginning(place)
                    next_offset[place] = 0
                case "end":
                    consumer.seek_to_end(place)
                    next_offset[place] = LENGTH
                case "assign":
                    kept = set(chance.sample(places, chance.randrange(1, PARTITIONS + 1)))
                    consumer.assign(sorted(kept))
                    for new in kept - assigned:
                        next_offset[new] = 0
                    assigned, paused = kept, paused & kept
                case _:
                    for chunk in consumer.take_chunks(0.02, 5000):
                        assert chunk.place in assigned - paused
                        for one in chunk.records():
                            assert one.offset == next_offset[chunk.place]
                            next_offset[chunk.place] += 1
            assert consumer.assignment() == assigned
            assert consumer.paused() == paused
            assert consumer.position(place) == next_offset[place] if place in assigned else True
        consumer.resume()
        while any(next_offset[place] < LENGTH for place in assigned):
            for record in consumer.poll(5.0):
                at = TopicPartition(record.topic, record.partition)
                assert record.offset == next_offset[at]
                next_offset[at] += 1
