"""What a broker knows of us by our requests is what we meant it to know (KIP-227)."""

from hypothesis import given
from hypothesis import strategies as st

from everlog.client.core.consumer.fetch_sessions import MAX_SESSION_EPOCH, Ask, FetchSession
from everlog.model.errors import ErrorCode
from everlog.model.ids import NO_UUID, Uuid
from everlog.model.topics import TopicPartition
from everlog.wire.messages.fetch import FetchRequest

ID, OTHER_ID = Uuid(b"the-orders-topic"), Uuid(b"orders-made-anew")
ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Broker:
    """A broker's side of sessions, as the protocol has it."""

    def __init__(self) -> None:
        self.sessions: dict[int, tuple[int, dict[tuple[Uuid, int], int]]] = {}
        self.made = 0

    def serve(self, request: FetchRequest) -> tuple[int, int, dict[tuple[Uuid, int], int]]:
        """The code and session of the answer, and the offsets that it would read at."""
        named = {
            (topic.topic_id, entry.partition): entry.fetch_offset
            for topic in request.topics
            for entry in topic.partitions
        }
        if request.session_epoch in (0, -1):
            self.sessions.pop(request.session_id, None)
            if request.session_epoch == -1:
                return 0, 0, named
            self.made += 1
            self.sessions[self.made] = (1, dict(named))
            return 0, self.made, named
        if request.session_id not in self.sessions:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, {}
        epoch, known = self.sessions[request.session_id]
        if request.session_epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, {}
        known.update(named)
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                del known[topic.topic_id, partition]
        self.sessions[request.session_id] = (epoch + 1, known)
        return 0, request.session_id, dict(known)


def asks(**offsets: int) -> dict[TopicPartition, Ask]:
    places = {"zero": ZERO, "one": ONE}
    return {places[name]: Ask(ID, offset, 0, 1000) for name, offset in offsets.items()}


def test_the_first_request_names_all_and_later_ones_what_has_changed() -> None:
    session, broker = FetchSession(), Broker()

    first = FetchRequest()
    assert session.begin(asks(zero=5, one=7), first)
    assert session.done(0, broker.serve(first)[1])
    second = FetchRequest()
    session.begin(asks(zero=5, one=9), second)

    assert (first.session_id, first.session_epoch) == (0, 0)
    assert [entry.partition for entry in first.topics[0].partitions] == [0, 1]
    assert (second.session_id, second.session_epoch) == (1, 1)
    assert [entry.fetch_offset for entry in second.topics[0].partitions] == [9]
    assert session.done(0, 1)
    third = FetchRequest()
    session.begin(asks(one=9), third)
    assert third.topics == []
    assert third.forgotten_topics_data[0].partitions == [0]


def test_a_broker_without_room_is_asked_for_everything_each_time() -> None:
    session = FetchSession()
    for _ in range(3):
        request = FetchRequest()
        session.begin(asks(zero=5), request)
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert len(request.topics) == 1
        assert session.done(0, 0)
    assert session.closing() is None


def test_epochs_go_round_without_the_two_that_mean_something_else() -> None:
    session = FetchSession(epoch=MAX_SESSION_EPOCH)
    session.begin(asks(zero=5), FetchRequest())
    session.done(0, 77)
    request = FetchRequest()
    session.begin(asks(zero=5), request)
    assert request.session_epoch == 1


def test_a_topic_without_an_id_is_said() -> None:
    session = FetchSession()
    assert not session.begin({ZERO: Ask(NO_UUID, 5, 0, 1000)}, FetchRequest())


steps = st.lists(
    st.tuples(
        st.dictionaries(
            st.sampled_from([ZERO, ONE, TopicPartition("orders", 2)]),
            st.builds(Ask, st.sampled_from([ID, OTHER_ID]), st.integers(0, 3), st.just(0), st.just(1000)),
        ),
        st.sampled_from(["served", "served", "served", "lost before", "lost after", "forgotten"]),
    ),
    max_size=30,
)


@given(steps)
def test_whatever_happens_an_answer_is_about_what_was_wanted(
    history: list[tuple[dict[TopicPartition, Ask], str]],
) -> None:
    session, broker = FetchSession(), Broker()
    for wanted, fate in history:
        same_topic = {ask.topic_id for ask in wanted.values()}
        if len(same_topic) > 1:
            continue  # One name has one id at a time.
        request = FetchRequest()
        session.begin(wanted, request)
        if fate == "lost before":
            session.broken()
            continue
        if fate == "forgotten":
            broker.sessions.clear()
        code, session_id, read = broker.serve(request)
        if fate == "lost after":
            session.broken()
            continue
        if session.done(code, session_id):
            assert read == {
                (ask.topic_id, place.partition): ask.fetch_offset for place, ask in wanted.items()
            }
        else:
            assert fate == "forgotten"
