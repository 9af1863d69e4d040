"""What a session of ours is set to, by where its workers run."""

import pytest

from everlog.spark.session import settings_for

UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"


@pytest.mark.parametrize("master", ["local[2]", "spark://127.0.0.1:7077"])
def test_on_this_machine_all_stays_on_it(master: str) -> None:
    settings = settings_for(master)
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings[UNIX_SOCKETS] == "true"


def test_other_machines_are_left_to_who_knows_them() -> None:
    settings = settings_for("spark://10.0.0.5:7077")
    assert "spark.driver.host" not in settings
    assert UNIX_SOCKETS not in settings


def test_a_system_without_unix_sockets_goes_by_tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("socket.AF_UNIX")
    assert UNIX_SOCKETS not in settings_for("local[2]")
