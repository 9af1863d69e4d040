"""The guides run against the same broker as the tests of the clients."""

from tests.client.conftest import bootstrap, broker

__all__ = ["bootstrap", "broker"]
