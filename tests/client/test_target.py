import subprocess
import sys
from pathlib import Path

import pytest

from everlog.client.core.addresses import parse_bootstrap
from tests import apache_kafka
from tests.client.conftest import NewTopic
from tests.client.log_reading import read_log


def test_a_topic_is_made_on_the_broker_under_test(bootstrap: str, new_topic: NewTopic) -> None:
    assert parse_bootstrap(bootstrap)
    assert read_log(bootstrap, new_topic(2)) == []


def test_a_kafka_that_does_not_come_up_in_time_is_not_left_behind(tmp_path: Path) -> None:
    (tmp_path / "data.out").touch()
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with process, pytest.raises(TimeoutError, match=r"not up after 0\.1 s"):
        apache_kafka.wait_ready(process, tmp_path / "data", timeout_s=0.1)
    assert process.returncode == -9
