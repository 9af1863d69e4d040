"""Clients are told of a fork, each by itself. What it means to them is told by tests.client.test_forks."""

from weakref import WeakKeyDictionary

import pytest

from everlog.client.drive import forks


class Client:
    def __init__(self, *, fails: bool) -> None:
        self.fails = fails
        self.why = ""

    def inherited(self, why: str) -> None:
        self.why = why
        if self.fails:
            raise ValueError("not told")


@pytest.mark.parametrize("failing", [{0}, {1}, {2}, {0, 2}])
def test_clients_are_told_of_a_fork_even_if_others_could_not_be(
    failing: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The clients of this process are not to be told anything.
    watched: WeakKeyDictionary[object, object] = WeakKeyDictionary()
    kept: list[object] = []
    monkeypatch.setattr(forks, "_watched", watched)
    monkeypatch.setattr(forks, "_kept", kept)
    clients = [Client(fails=number in failing) for number in range(3)]
    for client in clients:
        forks.watch(client, Client.inherited)

    with pytest.raises(ValueError, match="not told"):
        vars(forks)["_tell_inherited"]()
    assert all("make one in each process" in client.why for client in clients)
    assert not watched
    assert set(kept) == set(clients)
