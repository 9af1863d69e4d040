"""What each request comes to in each state of a classic group, as in Kafka (C2, C3, C4)."""

from collections.abc import Callable

import pytest

from everlog.coordinator.group.classic_group import State
from everlog.model.errors import ErrorCode, Refused
from tests.unit.coordinator.group.classic_shard import ClassicShard

NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
ILLEGAL = ErrorCode.ILLEGAL_GENERATION
REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS
MEMBER_ID_REQUIRED = ErrorCode.MEMBER_ID_REQUIRED
PARKED = None
"""No answer yet."""

STRANGER = "nobody-here"


class Scene:
    """A group of two in some state; `leader` and `other` are its members, if it has any."""

    def __init__(self, state: str) -> None:
        self.shard = ClassicShard()
        self.leader = self.other = STRANGER
        if state != "Unknown":
            getattr(self, f"_make_{state.lower()}")()
            assert self.shard.group.state == state

    @property
    def generation(self) -> int:
        group = self.shard.found()
        return 0 if group is None else group.generation

    def _make_empty(self) -> None:
        self._make_stable()
        self.shard.leave(self.leader, self.other)

    def _make_preparingrebalance(self) -> None:
        self._make_stable()
        self.shard.join(self.leader)

    def _make_completingrebalance(self) -> None:
        self.leader, self.other = self.shard.completing(2)

    def _make_stable(self) -> None:
        self.leader, self.other = self.shard.stable(2)


Request = Callable[[Scene], ErrorCode | None]


def join_as(member: str) -> Request:
    def request(scene: Scene) -> ErrorCode | None:
        asked = scene.shard.join(getattr(scene, member) if member in ("leader", "other") else member)
        return PARKED if asked.is_open else asked.answer.error

    return request


def sync_as(member: str, off: int = 0) -> Request:
    def request(scene: Scene) -> ErrorCode | None:
        member_id = getattr(scene, member, member)
        asked = scene.shard.sync(member_id, scene.generation + off)
        return PARKED if asked.is_open else asked.answer.error

    return request


def beat_as(member: str, off: int = 0) -> Request:
    return lambda scene: scene.shard.heartbeat(getattr(scene, member, member), scene.generation + off)


def leave_as(member: str) -> Request:
    return lambda scene: scene.shard.left(getattr(scene, member, member))[0]


def commit_as(member: str, off: int = 0, *, transactional: bool = False) -> Request:
    def request(scene: Scene) -> ErrorCode | None:
        outside = member == "outside"
        try:
            scene.shard.group.check_commit(
                "" if outside else getattr(scene, member, member),
                None,
                -1 if outside else scene.generation + off,
                transactional=transactional,
                api_version=9,
            )
        except Refused as refusal:
            return refusal.code
        return NONE

    return request


STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
TABLE: dict[str, tuple[Request, tuple[ErrorCode | None, ...]]] = {
    # request                          Empty               Preparing           Completing          Stable
    "join, a newcomer": (join_as(""), (MEMBER_ID_REQUIRED,) * 4),
    "join, a stranger": (join_as(STRANGER), (UNKNOWN,) * 4),
    "join, the leader again": (join_as("leader"), (UNKNOWN, PARKED, NONE, PARKED)),
    "join, another again": (join_as("other"), (UNKNOWN, NONE, NONE, NONE)),
    "sync, the leader": (sync_as("leader"), (UNKNOWN, REBALANCE, NONE, NONE)),
    "sync, another": (sync_as("other"), (UNKNOWN, REBALANCE, PARKED, NONE)),
    "sync, another generation": (sync_as("other", -1), (UNKNOWN, ILLEGAL, ILLEGAL, ILLEGAL)),
    "sync, a stranger": (sync_as(STRANGER), (UNKNOWN,) * 4),
    "heartbeat": (beat_as("other"), (UNKNOWN, REBALANCE, NONE, NONE)),
    "heartbeat, another generation": (beat_as("other", 1), (UNKNOWN, ILLEGAL, ILLEGAL, ILLEGAL)),
    "heartbeat, a stranger": (beat_as(STRANGER), (UNKNOWN,) * 4),
    "leave": (leave_as("other"), (UNKNOWN, NONE, NONE, NONE)),
    "leave, a stranger": (leave_as(STRANGER), (UNKNOWN,) * 4),
    "commit": (commit_as("other"), (UNKNOWN, NONE, REBALANCE, NONE)),
    "commit, another generation": (commit_as("other", -1), (UNKNOWN, ILLEGAL, ILLEGAL, ILLEGAL)),
    "commit, a stranger": (commit_as(STRANGER), (UNKNOWN,) * 4),
    "commit, from outside": (commit_as("outside"), (NONE, UNKNOWN, UNKNOWN, UNKNOWN)),
    "commit, transactional": (commit_as("other", transactional=True), (UNKNOWN, NONE, NONE, NONE)),
    "commit, transactional from outside": (commit_as("outside", transactional=True), (NONE,) * 4),
}


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("state", STATES)
def test_each_request_in_each_state_comes_to_what_kafka_answers(name: str, state: str) -> None:
    request, outcomes = TABLE[name]

    assert request(Scene(state)) == outcomes[STATES.index(state)]


@pytest.mark.parametrize(
    ("request_", "outcome"),
    [
        (join_as(""), MEMBER_ID_REQUIRED),
        (join_as(STRANGER), UNKNOWN),
        (sync_as(STRANGER), UNKNOWN),
        (beat_as(STRANGER), UNKNOWN),
        (leave_as(STRANGER), UNKNOWN),
    ],
)
def test_a_group_that_nobody_knows_has_no_members(request_: Request, outcome: ErrorCode) -> None:
    assert request_(Scene("Unknown")) == outcome


@pytest.mark.parametrize(
    ("request_", "state", "after"),
    [
        (join_as("leader"), "Stable", State.PREPARING),
        (join_as("other"), "Stable", State.STABLE),
        (join_as("other"), "PreparingRebalance", State.COMPLETING),
        (sync_as("leader"), "CompletingRebalance", State.STABLE),
        (sync_as("other"), "CompletingRebalance", State.COMPLETING),
        (leave_as("other"), "Stable", State.PREPARING),
        (leave_as("other"), "CompletingRebalance", State.PREPARING),
        (leave_as("other"), "PreparingRebalance", State.COMPLETING),
        (beat_as("other"), "Stable", State.STABLE),
    ],
)
def test_requests_that_change_the_state_lead_where_they_should(
    request_: Request, state: str, after: State
) -> None:
    scene = Scene(state)

    request_(scene)

    assert scene.shard.group.state is after
