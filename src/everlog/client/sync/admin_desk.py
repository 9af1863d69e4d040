"""The asyncio Admin behind a blocking one, and the way to it."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from everlog.client.aio.admin import Admin
from everlog.client.sync.portal import Portal

Result = TypeVar("Result")


class AdminDesk:
    """What all calls of a blocking Admin share: each is that of the asyncio one, run on a loop of our own."""

    def __init__(self, admin: Admin, portal: Portal) -> None:
        self._admin = admin
        self._portal = portal

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._portal.run(work)
