"""The scenarios that every client plays in every protocol: members join, leave, die and come back."""

from tests.conformance.clients.sessions import Partition, Sessions, Terms, Way
from tests.conformance.crowd import Crowd, until

SESSION_S = 3.0


def play_membership(crowd: Crowd, sessions: Sessions, doomed: Sessions, terms: Terms) -> None:
    """Two members, a third, one leaves, one dies; all is read, and once wherever nothing moved meanwhile."""
    early = crowd.write(5)
    crowd.add(sessions.member(terms))
    leaver = crowd.add(sessions.member(terms))
    crowd.wait_shared()
    crowd.wait_read(early)
    crowd.write_in_quiet()

    crowd.add(sessions.member(terms))
    crowd.write_while_moving()
    crowd.write_in_quiet()

    leaver.close()
    crowd.drop(leaver)
    # Who says that he leaves is not waited for until his session ends.
    assert crowd.write_while_moving() < SESSION_S
    crowd.write_in_quiet()

    victim = crowd.add(doomed.member(terms))
    crowd.wait_shared()
    crowd.write_in_quiet()
    doomed.kill()
    crowd.drop(victim)
    crowd.write_while_moving()
    crowd.write_in_quiet()

    crowd.close()
    check_all_committed(crowd, sessions)


def play_bounce(crowd: Crowd, sessions: Sessions, way: Way) -> None:
    """Each of two static members goes and is back within its session: the other never hears of it."""
    terms = [crowd.terms(protocol=way, instance=name, session_ms=6_000) for name in ("a", "b")]
    members = [crowd.add(sessions.member(each)) for each in terms]
    crowd.wait_shared()
    crowd.write_in_quiet()
    for number in (0, 1):
        gone, other = members[number], members[1 - number]
        owned, heard = gone.assignment, len(other.events)
        gone.close()
        crowd.drop(gone)
        members[number] = crowd.add(sessions.member(terms[number]))
        values = crowd.write(5)
        crowd.wait_read(values)
        crowd.wait_shared()

        assert members[number].assignment == owned
        other.look()
        assert len(other.events) == heard, other.events
        crowd.check_read_once(values)
    crowd.close()


def check_all_committed(crowd: Crowd, sessions: Sessions) -> None:
    """The group has committed all that was written."""
    group = crowd.terms().group

    def committed() -> dict[Partition, int]:
        return {where: each.offset for where, each in sessions.group_offsets(group).items()}

    until(lambda: committed() == crowd.ends, 40.0, lambda: (committed(), crowd.ends))
