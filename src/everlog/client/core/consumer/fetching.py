"""Which requests bring a consumer its records, and what the answers do to its positions (C1, C6, C7)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from everlog.client.core.consumer.chunks import Checks, Chunk, read_chunk
from everlog.client.core.consumer.errors import DamagedBatch
from everlog.client.core.consumer.fetch_sessions import SESSION_ERRORS, Ask, FetchSession
from everlog.client.core.consumer.positions import NO_REPLICA, PartitionState, Positions, Stage
from everlog.client.core.consumer.settings import ConsumerSettings
from everlog.client.core.errors import error_code, refusal
from everlog.client.core.metadata import Broker, ClusterView
from everlog.client.core.retry import Verdict, verdict
from everlog.model.errors import ErrorCode, EverlogError
from everlog.model.ids import Uuid
from everlog.model.topics import TopicPartition
from everlog.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

FIRST_VERSION_BY_ID = 13


@dataclass(frozen=True, slots=True)
class ConsumerFetch:
    """One request under way."""

    node_id: int
    request: FetchRequest
    asked: Mapping[TopicPartition, Ask]
    at_most: int | None
    """The newest version in which it can be sent."""


@dataclass(slots=True)
class Round:
    """What to do now."""

    requests: list[ConsumerFetch] = field(default_factory=list[ConsumerFetch])
    leaderless: set[str] = field(default_factory=set[str])
    """Topics with a partition whose leader is not known."""
    wake_at: float | None = None
    """When another partition may be asked for."""


@dataclass(slots=True)
class Taken:
    """What one answer brought, besides chunks and moved positions."""

    view: ClusterView
    """With the leaders that the answer told of (KIP-951)."""
    stale: set[str] = field(default_factory=set[str])
    """Topics whose metadata must be asked for before the next request."""
    failure: EverlogError | None = None
    """Why the answer as a whole is of no use; wait before the next."""
    chunks: int = 0
    bytes: int = 0


class Fetching:
    """Makes requests of positions, one at a time for each broker, and takes the answers.

    A broker is asked while less of each of its partitions waits to be polled than an answer may bring of it,
    and less than `prefetch_max_bytes` in all. It is asked for all of its partitions or for none: a long poll
    for the idle ones alone would keep the busy ones waiting.
    """

    def __init__(self, positions: Positions, settings: ConsumerSettings) -> None:
        self._positions = positions
        self._settings = settings
        # What is seen is checked when it is taken: the next request need not wait for it.
        self._checks = Checks.UNSEEN if settings.check_crcs else Checks.NONE
        self.answer_bytes = 0
        """What an answer may bring where partitions are few and `max_partition_fetch_bytes` is not set: each
        answer costs as much as some megabytes of it, which matters to who takes many of them at a time."""
        self._retry_s = settings.retry_backoff_ms / 1000
        self._sessions: dict[int, FetchSession] = {}
        self._names: dict[Uuid, str] = {}
        self._turns = 0

    def plan(self, view: ClusterView, now: float, busy: Collection[int]) -> Round:
        """The requests to send now to brokers that are not `busy` with one."""
        found = Round()
        by_node: dict[int, list[PartitionState]] = {}
        buffered = 0
        for state in self._positions:
            if state.stage is Stage.CHECK:
                self._positions.compare(state, view)
            if state.stage is not Stage.READING or state.paused or state.problem is not None:
                continue
            buffered += state.buffered_bytes
            if state.not_before > now:
                found.wake_at = min(found.wake_at or state.not_before, state.not_before)
                continue
            node = self._node_of(state, view, now)
            if node is None:
                found.leaderless.add(state.place.topic)
            elif node not in busy:
                by_node.setdefault(node, []).append(state)
        if buffered < self._settings.prefetch_max_bytes:
            for node, states in by_node.items():
                limit = self._partition_bytes(len(states))
                if all(state.buffered_bytes < max(1, limit) for state in states):
                    found.requests.append(self._request(node, states, limit))
        return found

    def take(self, fetch: ConsumerFetch, response: FetchResponse, view: ClusterView, now: float) -> Taken:
        """Take in an answer."""
        taken = Taken(view)
        session = self._sessions[fetch.node_id]
        if not session.done(response.error_code, response.session_id):
            if error_code(response.error_code) not in SESSION_ERRORS:
                taken.failure = refusal(response.error_code, None, f"fetch of broker {fetch.node_id}")
            return taken
        for endpoint in response.node_endpoints:
            told = Broker(endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack)
            if taken.view.brokers.get(told.node_id) != told:
                taken.view = taken.view.with_broker(told)
        for topic in response.responses:
            name = topic.topic or self._name_of(topic.topic_id, view)
            for partition in topic.partitions:
                place = TopicPartition(name, partition.partition_index)
                ask, state = fetch.asked.get(place), self._positions.get(place)
                if ask is not None and state is not None and state.wants(ask):
                    self._take_partition(fetch.node_id, state, partition, taken, now)
        return taken

    def take_chunk(self, state: PartitionState) -> Chunk:
        """Take the next chunk of a partition that has one, as far as its checksums hold.

        Behind a batch that is damaged nothing is kept; it is the partition's problem then.
        """
        chunk, damage = state.unbuffer().checked()
        if damage is not None:
            state.cut_back(chunk.next_offset, chunk.leader_epoch, damage)
        return chunk

    def failed(self, node_id: int) -> None:
        """Take in that a request was not answered."""
        self._sessions[node_id].broken()

    def closing(self) -> dict[int, FetchRequest]:
        """Requests that end the sessions, by broker."""
        requests = {node: session.closing() for node, session in self._sessions.items()}
        return {node: request for node, request in requests.items() if request is not None}

    def _name_of(self, topic_id: Uuid, view: ClusterView) -> str:
        name = self._names.get(topic_id) or view.name_of(topic_id)
        if name is None:
            return ""
        self._names[topic_id] = name
        return name

    def _node_of(self, state: PartitionState, view: ClusterView, now: float) -> int | None:
        if state.replica != NO_REPLICA:
            if now < state.replica_until and state.replica in view.brokers:
                return state.replica
            state.replica = NO_REPLICA
        leader = view.leader_of(state.place)
        return None if leader is None else leader.node_id

    def _partition_bytes(self, partitions: int) -> int:
        """What a request may ask for of each of so many partitions."""
        limit = self._settings.max_partition_fetch_bytes
        if "max_partition_fetch_bytes" in self._settings.given:
            return limit
        return max(limit, self.answer_bytes // partitions)

    def _request(self, node: int, states: list[PartitionState], max_bytes: int) -> ConsumerFetch:
        session = self._sessions.get(node)
        if session is None:
            session = self._sessions[node] = FetchSession()
        if session.is_new:
            # A full answer ends with the partitions asked for first: who had a turn goes to the end.
            states.sort(key=lambda state: state.turn)
        settings = self._settings
        request = FetchRequest(
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            isolation_level=1 if settings.read_committed else 0,
            rack_id=settings.client_rack,
        )
        wanted = {state.place: state.to_ask(max_bytes) for state in states}
        has_ids = session.begin(wanted, request)
        return ConsumerFetch(node, request, wanted, None if has_ids else FIRST_VERSION_BY_ID - 1)

    def _take_partition(
        self, node: int, state: PartitionState, partition: PartitionData, taken: Taken, now: float
    ) -> None:
        if partition.error_code != ErrorCode.NONE:
            self._take_error(node, state, partition, taken, now)
            return
        state.high_watermark = partition.high_watermark
        state.last_stable_offset = partition.last_stable_offset
        state.log_start = partition.log_start_offset
        if partition.preferred_read_replica >= 0 and partition.preferred_read_replica != node:
            state.replica = partition.preferred_read_replica
            state.replica_until = now + self._settings.metadata_max_age_ms / 1000
        try:
            chunk = read_chunk(
                state.place,
                partition,
                state.fetch_offset,
                read_committed=self._settings.read_committed,
                checks=self._checks,
            )
        except DamagedBatch as error:
            state.problem = error
            return
        if chunk is not None:
            state.buffer(chunk)
            self._turns += 1
            state.turn = self._turns
            taken.chunks += 1
            taken.bytes += chunk.size_bytes

    def _take_error(
        self, node: int, state: PartitionState, partition: PartitionData, taken: Taken, now: float
    ) -> None:
        """Decide on an error of one partition; the others of the answer are not touched."""
        code = error_code(partition.error_code)
        place = state.place
        state.not_before = now + self._retry_s
        if state.replica == node:
            # A follower may be behind, or not be one any more: the leader knows.
            state.replica = NO_REPLICA
            state.not_before = now
            taken.stale.add(place.topic)
        elif code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._positions.take_out_of_range(state)
        elif code is ErrorCode.CORRUPT_MESSAGE:
            state.problem = DamagedBatch("so the broker finds it", place, state.fetch_offset)
        elif verdict(code) is Verdict.REFRESH:
            told = partition.current_leader
            newer = taken.view.with_new_leader(place, told.leader_id, told.leader_epoch)
            if newer is taken.view:
                taken.stale.add(place.topic)
            else:
                taken.view = newer
                state.not_before = now
        elif verdict(code) is Verdict.FAIL and code is not ErrorCode.UNKNOWN_SERVER_ERROR:
            state.problem = refusal(
                partition.error_code, None, f"fetch of {place} at offset {state.fetch_offset}"
            )
