"""Answers that say one error of all that was asked for, for every API that is forwarded."""

from importlib import import_module

import pytest

from everlog.broker.error_answers import error_answer, says, says_not_active
from everlog.broker.forwarding import FORWARDED
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Uuid
from everlog.wire.apis import APIS, ApiKey
from everlog.wire.codec import decode_response, encode_response
from everlog.wire.message import Message
from everlog.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from everlog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from everlog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from everlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from everlog.wire.messages.describe_quorum import DescribeQuorumResponse
from everlog.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from everlog.wire.messages.produce import ProduceRequest

ERROR = Refused(ErrorCode.REQUEST_TIMED_OUT, "nobody was there")
ID = Uuid(bytes(range(16)))


@pytest.mark.parametrize("key", sorted(FORWARDED))
def test_every_forwarded_api_has_an_error_answer_in_every_version(key: ApiKey) -> None:
    api = APIS[key]
    request: Message = getattr(import_module(f"everlog.wire.messages.{api.module}"), f"{api.name}Request")()
    for version in range(api.min_version, api.max_version + 1):
        answer = error_answer(request, version, ERROR)
        assert answer is not None
        decode_response(key, version, encode_response(answer, version, 1)[4:])


def test_each_topic_is_named() -> None:
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name="a", num_partitions=3), CreatableTopic(name="b")]
    )
    answer = error_answer(request, 7, ERROR)
    assert isinstance(answer, CreateTopicsResponse)
    assert [(one.name, one.error_code, one.error_message) for one in answer.topics] == [
        ("a", ErrorCode.REQUEST_TIMED_OUT, "nobody was there"),
        ("b", ErrorCode.REQUEST_TIMED_OUT, "nobody was there"),
    ]
    assert answer.topics[0].num_partitions == -1


def test_topics_are_named_as_they_were_asked_for() -> None:
    old = error_answer(DeleteTopicsRequest(topic_names=["a"]), 5, ERROR)
    new = error_answer(DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=ID)]), 6, ERROR)
    assert isinstance(old, DeleteTopicsResponse)
    assert isinstance(new, DeleteTopicsResponse)
    assert [one.name for one in old.responses] == ["a"]
    assert [(one.name, one.topic_id) for one in new.responses] == [(None, ID)]


def test_resources_and_users_are_named() -> None:
    configs = error_answer(
        AlterConfigsRequest(resources=[AlterConfigsResource(resource_type=2, resource_name="t")]), 2, ERROR
    )
    users = error_answer(
        AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name="ann")], upsertions=[ScramCredentialUpsertion(name="bob")]
        ),
        0,
        ERROR,
    )
    assert "resource_name='t'" in repr(configs)
    assert isinstance(users, AlterUserScramCredentialsResponse)
    assert [one.user for one in users.results] == ["ann", "bob"]


def test_an_api_without_a_place_for_it_has_none() -> None:
    assert error_answer(ProduceRequest(), 9, ERROR) is None


def test_partitions_are_named_where_there_is_no_other_place() -> None:
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0, 4])])
    for version, whole in ((0, ErrorCode.NONE), (2, ErrorCode.REQUEST_TIMED_OUT)):
        answer = error_answer(request, version, ERROR)
        assert isinstance(answer, ElectLeadersResponse)
        assert answer.error_code == whole
        assert says(answer, ErrorCode.REQUEST_TIMED_OUT)
    assert error_answer(ElectLeadersRequest(topic_partitions=None), 0, ERROR) == ElectLeadersResponse()


def test_a_code_is_found_wherever_it_stands() -> None:
    answer = error_answer(CreateTopicsRequest(topics=[CreatableTopic(name="a")]), 7, ERROR)
    assert answer is not None
    assert says(answer, ErrorCode.REQUEST_TIMED_OUT)
    assert not says(answer, ErrorCode.NOT_CONTROLLER)


def test_not_to_lead_the_quorum_is_not_to_be_active_and_not_to_lead_a_partition_is_not() -> None:
    not_leader = ErrorCode.NOT_LEADER_OR_FOLLOWER
    elsewhere = Refused(not_leader, "another leads")
    assert says_not_active(DescribeQuorumResponse(error_code=not_leader))
    topics = error_answer(CreateTopicsRequest(topics=[CreatableTopic(name="a")]), 7, elsewhere)
    assert topics is not None
    assert not says_not_active(topics)
