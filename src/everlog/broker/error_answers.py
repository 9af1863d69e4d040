"""Error codes in answers of any API: finding them, and making answers that hold nothing else."""

from collections.abc import Iterator
from importlib import import_module
from typing import Final, NamedTuple, cast

from everlog.model.errors import ErrorCode, Refused
from everlog.wire.apis import APIS, ApiKey
from everlog.wire.message import Message, Structure


def says(answer: Structure, code: ErrorCode) -> bool:
    """Whether an error code stands anywhere in an answer."""
    for name in answer.__slots__:
        value = getattr(answer, name)
        if name == "error_code":
            if value == code:
                return True
        elif isinstance(value, Structure):
            if says(value, code):
                return True
        elif isinstance(value, list):
            items = cast("list[object]", value)
            if any(isinstance(item, Structure) and says(item, code) for item in items):
                return True
    return False


def says_not_active(answer: Message) -> bool:
    """Whether an answer says that another node is the active controller."""
    if says(answer, ErrorCode.NOT_CONTROLLER):
        return True
    return answer.KEY in _OF_THE_QUORUM and says(answer, ErrorCode.NOT_LEADER_OR_FOLLOWER)


_OF_THE_QUORUM: Final = frozenset(
    {
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.UPDATE_RAFT_VOTER,
    }
)
"""What the leader of the quorum serves; whoever is not says so in a word of its own (KIP-595, KIP-853)."""


class _PerItem(NamedTuple):
    """An API whose answer has an error for each thing asked for, and none for the whole."""

    asked: tuple[str, ...]
    """The lists of the request."""
    answered: str
    """The list of the answer."""
    item: str
    """The class of an item there."""
    named_by: dict[str, str]
    """Which fields say what an item is about: those of the answer, and where in the request they stand."""


_RESOURCE: Final = {"resource_type": "resource_type", "resource_name": "resource_name"}

_PER_ITEM: Final[dict[int, _PerItem]] = {
    ApiKey.CREATE_TOPICS: _PerItem(("topics",), "topics", "CreatableTopicResult", {"name": "name"}),
    ApiKey.DELETE_TOPICS: _PerItem(
        ("topics", "topic_names"),
        "responses",
        "DeletableTopicResult",
        {"name": "name", "topic_id": "topic_id"},
    ),
    ApiKey.CREATE_PARTITIONS: _PerItem(
        ("topics",), "results", "CreatePartitionsTopicResult", {"name": "name"}
    ),
    ApiKey.ALTER_CONFIGS: _PerItem(("resources",), "responses", "AlterConfigsResourceResponse", _RESOURCE),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _PerItem(
        ("resources",), "responses", "AlterConfigsResourceResponse", _RESOURCE
    ),
    ApiKey.CREATE_ACLS: _PerItem(("creations",), "results", "AclCreationResult", {}),
    ApiKey.DELETE_ACLS: _PerItem(("filters",), "filter_results", "DeleteAclsFilterResult", {}),
    ApiKey.ALTER_CLIENT_QUOTAS: _PerItem(("entries",), "entries", "ResponseEntryData", {"entity": "entity"}),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _PerItem(
        ("deletions", "upsertions"), "results", "AlterUserScramCredentialsResult", {"user": "name"}
    ),
}


def error_answer(request: Message, version: int, error: Refused) -> Message | None:
    """Return the answer that says the same of all that was asked for; None if the API has no place for it."""
    assert request.KEY is not None, request
    api = APIS[request.KEY]
    if api.key == ApiKey.ELECT_LEADERS and version == 0:
        return _no_leaders_elected(request, error)
    module = import_module(f"everlog.wire.messages.{api.module}")
    answer: Message = getattr(module, f"{api.name}Response")()
    if "error_code" in answer.__slots__:
        _set_error(answer, error)
        return answer
    per_item = _PER_ITEM.get(api.key)
    if per_item is None:
        return None
    kind: type[Structure] = getattr(module, per_item.item)
    items: list[Structure] = []
    for asked in _asked(request, per_item):
        item = kind()
        for name, there in per_item.named_by.items():
            if isinstance(asked, str):
                setattr(item, "name", asked)  # noqa: B010  # topics were named so before version 6
                break
            setattr(item, name, getattr(asked, there))
        _set_error(item, error)
        items.append(item)
    setattr(answer, per_item.answered, items)
    return answer


def _no_leaders_elected(request: Message, error: Refused) -> Message:
    """The one answer with errors two levels down: version 0 has none for the whole."""
    from everlog.wire.messages import elect_leaders

    assert isinstance(request, elect_leaders.ElectLeadersRequest)
    return elect_leaders.ElectLeadersResponse(
        replica_election_results=[
            elect_leaders.ReplicaElectionResult(
                topic=one.topic,
                partition_result=[
                    elect_leaders.PartitionResult(
                        partition_id=number, error_code=error.code, error_message=str(error)
                    )
                    for number in one.partitions
                ],
            )
            for one in request.topic_partitions or ()
        ]
    )


def _asked(request: Message, per_item: _PerItem) -> Iterator[Structure | str]:
    for name in per_item.asked:
        yield from getattr(request, name)


def _set_error(place: Structure, error: Refused) -> None:
    setattr(place, "error_code", int(error.code))  # noqa: B010  # which structure has one is known only now
    if "error_message" in place.__slots__:
        setattr(place, "error_message", str(error))  # noqa: B010
