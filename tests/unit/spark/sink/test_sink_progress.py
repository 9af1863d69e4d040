"""The source's offsets that a group gets with a batch, by the query's checkpoint."""

from pathlib import Path

import pytest

from everlog.model.topics import TopicPartition
from everlog.spark.sink.options import SinkOptions
from everlog.spark.sink.progress import source_offsets


def options_for(checkpoint: Path, *sources: str) -> SinkOptions:
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / "0").write_text("\n".join(["v1", "{}", *sources]))
    return SinkOptions.read(
        {
            "kafka.bootstrap.servers": "127.0.0.1:9092",
            "commitGroup": "lag",
            "checkpointLocation": str(checkpoint),
        }
    )


def test_of_two_sources_of_a_topic_a_group_gets_the_offset_of_the_one_behind(tmp_path: Path) -> None:
    options = options_for(tmp_path, '{"orders":{"0":100}}', '{"orders":{"0":105}}')

    assert source_offsets(options, 0) == {TopicPartition("orders", 0): 100}


def test_a_checkpoint_without_topics_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = options_for(tmp_path, '{"logOffset":3}')

    assert source_offsets(options, 0) == {}
    assert "names no topic for it" in caplog.text
