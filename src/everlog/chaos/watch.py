"""Somebody who looks at leaders and ISRs all the time, and notes each change."""

import threading
import time
from collections.abc import Callable, Mapping

from everlog.chaos.notes import Notes, PartitionSeen
from everlog.client.core.metadata import Partition
from everlog.client.sync.admin import Admin
from everlog.model.errors import EverlogError

_INTERVAL_S = 0.1
_ANSWER_MS = 2_000


class Watch:
    """A thread that asks for the topic's partitions ten times a second."""

    def __init__(self, bootstrap: str, topic: str, notes: Notes) -> None:
        self._topic = topic
        self._notes = notes
        self._stopping = threading.Event()
        self._latest: dict[int, Partition] = {}
        self._controller = -1
        self._admin = Admin(
            bootstrap,
            client_id="everlog-chaos-watch",
            request_timeout_ms=_ANSWER_MS,
            default_api_timeout_ms=_ANSWER_MS,
            socket_connection_setup_timeout_ms=_ANSWER_MS,
            retry_backoff_ms=20,
            reconnect_backoff_max_ms=100,
        )
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()
        self._thread.join(2 * _ANSWER_MS / 1000)
        self._admin.close()

    @property
    def partitions(self) -> Mapping[int, Partition]:
        """The topic's partitions as they were seen last."""
        return self._latest

    def controller(self) -> int:
        """The active controller, or -1 if nobody tells."""
        try:
            return self._admin.describe_quorum().leader_id
        except EverlogError:
            pass
        try:
            return self._admin.describe_cluster().controller_id
        except EverlogError:
            return -1

    def wait(self, holds: Callable[[Mapping[int, Partition]], bool], timeout_s: float) -> bool:
        """Wait until what is seen is as wanted; False if it is not in this time."""
        deadline = time.monotonic() + timeout_s
        while not (self._latest and holds(self._latest)):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_INTERVAL_S / 2)
        return True

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                found = dict(self._admin.describe_topics([self._topic])[self._topic].partitions)
            except EverlogError:
                found = self._latest  # Whoever was asked is down; the next one is asked next.
            now = self._notes.clock.ms()
            for index, partition in sorted(found.items()):
                before = self._latest.get(index)
                if before is None or (before.leader, set(before.isr)) != (
                    partition.leader,
                    set(partition.isr),
                ):
                    self._notes.seen.append(
                        PartitionSeen(now, index, partition.leader, tuple(sorted(partition.isr)))
                    )
            self._latest = found
            self._stopping.wait(_INTERVAL_S)
