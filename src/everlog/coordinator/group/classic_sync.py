"""The sync phase of the classic protocol: the leader brings the assignments, and each member gets its own."""

import logging

from everlog.coordinator.group.classic_commands import Reply, Synced, SyncGroup, code_of
from everlog.coordinator.group.classic_group import ClassicGroup, State
from everlog.coordinator.group.classic_members import Member
from everlog.coordinator.group.classic_rebalance import Name, Rebalancer, Wait
from everlog.coordinator.machine import Decision, Phase
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import Instant

_log = logging.getLogger(__name__)


class SyncPhase:
    """How a generation gets its assignment, and what happens if it does not."""

    def __init__(self, rebalancer: Rebalancer) -> None:
        self._rebalancer = rebalancer

    def sync(self, group: ClassicGroup, command: SyncGroup, reply: Reply[Synced]) -> None:
        """Answer with the member's assignment, or park the request until there is one."""
        member = _check(group, command)
        if group.state is State.PREPARING:
            self._rebalancer.answer(reply, Synced(ErrorCode.REBALANCE_IN_PROGRESS))
            return
        self._has_synced(group, member)
        if group.state is State.STABLE:
            own = Synced(ErrorCode.NONE, group.protocol_type, group.protocol, member.assignment)
            self._rebalancer.answer(reply, own)
            return
        assert group.state is State.COMPLETING, group.state
        earlier, member.parked_sync = member.parked_sync, reply
        if earlier is not None:
            self._rebalancer.answer(earlier, Synced(ErrorCode.REBALANCE_IN_PROGRESS))
        if member.id == group.members.leader:
            self._keep(group, dict(command.assignments))

    def time_is_up(self, group: ClassicGroup, now: Instant) -> None:
        """Go on without the members that have joined and then never asked for their assignment."""
        silent = [one for one in group.members if one.id in group.unsynced]
        if not silent or group.state not in (State.COMPLETING, State.STABLE):
            return
        for member in silent:
            self._rebalancer.remove(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        self._rebalancer.prepare(group, f"members that did not sync in time: {len(silent)}", now)

    def _has_synced(self, group: ClassicGroup, member: Member) -> None:
        group.unsynced.pop(member.id, None)
        if not group.unsynced:
            self._rebalancer.timers.cancel(Name(group.id, Wait.SYNC))

    def _keep(self, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
        """Write the assignments down, then tell all who wait for theirs."""
        rebalancer = self._rebalancer
        generation, protocol = group.generation, group.protocol
        waiting: list[tuple[Member, Reply[Synced]]] = []
        for member in group.members:
            sync, member.parked_sync = member.parked_sync, None
            if sync is not None:
                waiting.append((member, sync))

        def done(outcome: Refused | StorageError | None) -> None:
            at = rebalancer.world.clock.now()
            for member, sync in waiting:
                # Who waited could not send heartbeats.
                if group.members.get(member.id) is member:
                    rebalancer.begin_session(group, member, at)
                own = Synced(ErrorCode.NONE, group.protocol_type, protocol, assignments.get(member.id, b""))
                sync(Synced(code_of(outcome)) if isinstance(outcome, Refused | StorageError) else own)
            if isinstance(outcome, Refused | StorageError):
                self._not_kept(group, generation, outcome, at)

        wall = rebalancer.world.clock.wall()
        rebalancer.shard.machine.run(
            lambda: Decision((group.record_of_stable(assignments, wall),), None), done
        )

    def _not_kept(
        self, group: ClassicGroup, generation: int, failure: Refused | StorageError, now: Instant
    ) -> None:
        # A closed coordinator has no groups; and if another rebalance has begun since, nothing is left to do.
        if self._rebalancer.shard.machine.phase is not Phase.ACTIVE or group.generation != generation:
            return
        _log.warning("the assignment of group %r could not be written: %s", group.id, failure)
        if group.state in (State.COMPLETING, State.STABLE):
            self._rebalancer.prepare(group, "its assignment could not be written", now)


def _check(group: ClassicGroup, command: SyncGroup) -> Member:
    member = group.members.find(command.member_id, command.instance_id)
    group.check_generation(command.generation)
    for what, found, expected in (
        ("protocol type", command.protocol_type, group.protocol_type),
        ("protocol", command.protocol, group.protocol),
    ):
        if found is not None and expected is not None and found != expected:
            raise Refused(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the {what} of group {group.id!r} is {expected!r}, found {found!r}",
            )
    return member
