"""Leaders that say nothing: whoever has taken over from them is asked for, and gets what they were sent.

A broker that is frozen, or behind a network that swallows everything, keeps its connections open. Requests to
it would wait for `request_timeout_ms` and a new connection for as long as one may take, while the cluster has
replaced it long before. So, while an answer or a connection is overdue, any other broker is asked who leads;
once that is somebody else, an idempotent producer sends him the same batches under the same numbers. If the
old leader has passed them on, the new one knows their numbers and answers as if it had taken them.
"""

import math

from everlog.client.core.errors import TimedOut
from everlog.client.core.metadata import Broker
from everlog.client.core.producer.partition_queue import PartitionQueue
from everlog.client.core.producer.send_plan import Departure, Fate, Ruling
from everlog.client.core.producer.settings import ProducerSettings
from everlog.client.drive.connection import SILENT_S
from everlog.client.drive.link import ClusterLink
from everlog.client.drive.settlement import Settlement

OVERDUE_S = SILENT_S + 0.1
"""An answer is overdue then: its connection counts as silent already, and others are asked who leads."""


class Silence:
    """What one sender waits for, partition by partition."""

    def __init__(self, link: ClusterLink, settings: ProducerSettings, settlement: Settlement) -> None:
        self._link = link
        self._idempotent = settings.enable_idempotence
        self._settlement = settlement
        self._under_way: dict[PartitionQueue, None] = {}
        """Lines that had something under way when they were last looked at, or have by now."""
        self._asked_at = -math.inf
        """When somebody was last asked who leads; while nothing is heard, that is once in `OVERDUE_S`."""

    def sent(self, queue: PartitionQueue) -> None:
        """Note that an answer is due for a partition."""
        self._under_way[queue] = None

    def asked(self, now: float) -> None:
        """Note that metadata were asked for, for whatever reason."""
        self._asked_at = now

    def look(self, now: float) -> float:
        """Take back what another leader should have, doubt who says nothing; return when to look again."""
        due = math.inf
        for queue in list(self._under_way):
            if not queue.in_flight:
                del self._under_way[queue]
                continue
            since = queue.in_flight[0].sent_at
            if since + OVERDUE_S > now:
                due = min(due, since + OVERDUE_S)
                continue
            leader = self._link.view.leader_of(queue.place)
            if self._idempotent and leader is not None and leader.node_id != queue.node_id:
                self._take_back(queue, leader, now - since)
            else:
                due = min(due, self.doubt(queue, since, now))
        return due

    def doubt(self, queue: PartitionQueue, since: float, now: float) -> float:
        """Have it asked who leads if nothing was heard since then for too long; return when that will be."""
        ask_at = max(since, self._asked_at) + OVERDUE_S
        if ask_at > now:
            return ask_at
        self._settlement.stale.add(queue.place.topic)
        return math.inf

    def _take_back(self, queue: PartitionQueue, leader: Broker, waited_s: float) -> None:
        silent = TimedOut(
            f"broker {queue.node_id} did not answer PRODUCE for {waited_s:.3g} s, "
            f"and broker {leader.node_id} leads {queue.place} by now"
        )
        for batch in list(queue.in_flight):
            departure = Departure(queue, batch, batch.attempts)
            self._settlement.settle(departure, Ruling(Fate.MOVED, error=silent), moved_from=queue.node_id)
