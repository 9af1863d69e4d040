"""What a controller tells the active one of itself (KIP-853, KIP-919)."""

from everlog.broker.controller_errands import RETRY_MS, ControllerErrands
from everlog.metadata.features import SUPPORTED_FEATURES
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import NO_UUID, Uuid
from everlog.model.settings.listeners import Listener, SecurityProtocol
from everlog.peers.address import Address
from everlog.raft.messages import Endpoint, ReplicaKey
from everlog.raft.voters import VoterSet
from everlog.sim.alarm import SimAlarm
from everlog.sim.clock import SimClock
from everlog.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from everlog.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from tests.unit.broker.test_lifecycle import Controller

DIRECTORY, INCARNATION = Uuid(b"d" * 16), Uuid(b"i" * 16)
ME = ReplicaKey(1, DIRECTORY)
HERE, ELSEWHERE = Address("here", 9093), Address("elsewhere", 9093)


class Quorum:
    """The quorum as this node knows it."""

    def __init__(self, voters: VoterSet) -> None:
        self.me = ME
        self.voters = voters
        self.epoch = 7


class Life:
    """One life of a controller that listens here."""

    def __init__(self, voters: VoterSet, *hosts: str) -> None:
        self.controller = Controller()
        self.clock = SimClock()
        self.quorum = Quorum(voters)
        listeners = tuple(
            Listener("CONTROLLER", host, 9093, SecurityProtocol.PLAINTEXT) for host in hosts or (HERE.host,)
        )
        self.errands = ControllerErrands(
            self.quorum, self.controller, "cluster", INCARNATION, listeners, self.clock, SimAlarm()
        )

    def tick(self, ms: int = 0) -> int:
        """Let time pass; how many requests are on their way then."""
        self.clock.advance(ms)
        self.errands.tick(self.clock.now())
        return len(self.controller.asked)

    def registered(self) -> "Life":
        self.tick()
        self.controller.answer(ControllerRegistrationResponse())
        return self


def by_settings() -> VoterSet:
    return VoterSet([ReplicaKey(1, NO_UUID)], {1: ELSEWHERE})


def by_log(address: Address, directory: Uuid = DIRECTORY) -> VoterSet:
    return VoterSet([ReplicaKey(1, directory)], endpoints={1: (Endpoint("CONTROLLER", address),)})


def test_a_controller_registers_once_in_each_life() -> None:
    life = Life(by_settings())
    assert life.tick() == 1
    assert life.tick(10 * RETRY_MS) == 1, "one request at a time"
    request = life.controller.answer(Refused(ErrorCode.REQUEST_TIMED_OUT, "no controller"))
    assert isinstance(request, ControllerRegistrationRequest)
    assert (request.controller_id, request.incarnation_id) == (1, INCARNATION)
    assert [(one.name, one.host, one.port) for one in request.listeners] == [("CONTROLLER", "here", 9093)]
    assert {one.name for one in request.features} == set(SUPPORTED_FEATURES)
    assert life.tick() == 0, "it is asked again a little later"
    assert life.tick(RETRY_MS) == 1
    life.controller.answer(ControllerRegistrationResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    assert life.tick(RETRY_MS) == 1
    life.controller.answer(ControllerRegistrationResponse())
    assert life.tick(RETRY_MS) == 0, "voters of the settings are changed there"


def test_a_voter_that_listens_elsewhere_than_the_log_says_has_that_changed() -> None:
    life = Life(by_log(ELSEWHERE)).registered()
    assert life.tick(RETRY_MS) == 1
    request = life.controller.answer(UpdateRaftVoterResponse(error_code=ErrorCode.FENCED_LEADER_EPOCH))
    assert isinstance(request, UpdateRaftVoterRequest)
    assert (request.voter_id, request.voter_directory_id) == (1, DIRECTORY)
    assert (request.cluster_id, request.current_leader_epoch) == ("cluster", 7)
    assert [(one.host, one.port) for one in request.listeners] == [("here", 9093)]
    assert life.tick(RETRY_MS) == 1
    life.controller.answer(UpdateRaftVoterResponse())
    life.quorum.voters = by_log(HERE)
    assert life.tick(RETRY_MS) == 0


def test_a_voter_that_is_where_the_log_says_or_is_another_says_nothing() -> None:
    assert Life(by_log(HERE)).registered().tick(RETRY_MS) == 0
    assert Life(by_log(ELSEWHERE, Uuid(b"o" * 16))).registered().tick(RETRY_MS) == 0
    assert Life(by_log(ELSEWHERE), "0.0.0.0").registered().tick(RETRY_MS) == 0
