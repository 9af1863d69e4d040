"""ElectLeaders, versions 0 to 2. 0 knows preferred leaders only, 1 the kind of election, 2 is flexible."""

from everlog.broker.desk.seat import Seat
from everlog.broker.exchange import Exchange
from everlog.controller.decisions import Refusal
from everlog.controller.leader_election import ElectionType, ElectLeaders
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_FIRST_WITH_ERROR = 1


def handle(desk: Seat, request: ElectLeadersRequest, exchange: Exchange) -> None:
    """Elect the leaders that are wanted and say of each partition what became of it."""
    named = _named(request)

    def done(reply: dict[tuple[str, int], Refusal | None] | Refused | StorageError) -> None:
        if not isinstance(reply, dict):
            exchange.answer(_refused(Refusal.of(reply), named, exchange.api_version))
            return
        exchange.answer(ElectLeadersResponse(replica_election_results=_results(reply)))

    if request.election_type not in list(ElectionType):
        problem = f"the election type is {request.election_type}, expected 0 (preferred) or 1 (unclean)"
        exchange.answer(_refused(Refusal(ErrorCode.INVALID_REQUEST, problem), named, exchange.api_version))
        return
    command = ElectLeaders(ElectionType(request.election_type), named, ends=desk.recovered_ends)
    desk.controller.submit(command, done)


def _named(request: ElectLeadersRequest) -> tuple[tuple[str, int], ...] | None:
    if request.topic_partitions is None:
        return None
    return tuple((topic.topic, number) for topic in request.topic_partitions for number in topic.partitions)


def _refused(
    refusal: Refusal, named: tuple[tuple[str, int], ...] | None, version: int
) -> ElectLeadersResponse:
    results = _results(dict.fromkeys(named or (), refusal))
    if version < _FIRST_WITH_ERROR:
        return ElectLeadersResponse(replica_election_results=results)
    return ElectLeadersResponse(error_code=refusal.code, replica_election_results=results)


def _results(reply: dict[tuple[str, int], Refusal | None]) -> list[ReplicaElectionResult]:
    topics: dict[str, list[PartitionResult]] = {}
    for (name, number), refusal in reply.items():
        code = ErrorCode.NONE if refusal is None else refusal.code
        message = None if refusal is None else refusal.message
        topics.setdefault(name, []).append(
            PartitionResult(partition_id=number, error_code=code, error_message=message)
        )
    return [ReplicaElectionResult(topic=name, partition_result=results) for name, results in topics.items()]
