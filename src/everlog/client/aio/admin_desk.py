"""What all calls of an Admin share: whom to ask, what to try again, and when to give up."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from everlog.client.core.admin.outcomes import all_done, may_pass
from everlog.client.core.admin.settings import AdminSettings
from everlog.client.core.coordinators import CoordinatorKind
from everlog.client.core.errors import TimedOut, refusal
from everlog.client.core.metadata import Broker
from everlog.client.drive.link import ClusterLink
from everlog.model.errors import ErrorCode, EverlogError, Refused
from everlog.model.topics import TopicPartition
from everlog.wire.message import Message

Answer = TypeVar("Answer", bound=Message)
Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")

Outcomes = Mapping[Key, Result | Refused]


class AdminDesk:
    """The link of an Admin and its patience. Nothing here knows what a request is about."""

    def __init__(self, settings: AdminSettings) -> None:
        self._settings = settings
        self._link = ClusterLink(replace(settings, request_timeout_ms=self._timeout_ms))

    @property
    def _timeout_ms(self) -> int:
        """How long a broker may take over one request."""
        return min(self._settings.request_timeout_ms, self._settings.default_api_timeout_ms)

    async def _patiently(
        self,
        once: Callable[[float], Awaitable[Result]],
        failed: Callable[[], object] | None = None,
        *,
        repeatable: bool = True,
        timeout: float | None = None,
    ) -> Result:
        """Try until it works, while what goes wrong may pass; TimedOut in the end.

        `once` gets the seconds that one request may take. With `repeatable` false a lost answer is an error:
        the request may have been carried out, and to send it again would be refused for that reason.
        """
        limit = self._settings.default_api_timeout_ms / 1000 if timeout is None else timeout
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit
        backoff = self._link.backoff()
        if not self._link.view.brokers:
            # Patience is for clusters that change. Where no broker has answered yet, that is told at once.
            await self._link.any_broker(limit)
        while True:
            try:
                return await once(min(self._link.timeout, max(0.001, deadline - loop.time())))
            except EverlogError as error:
                passes = may_pass(error) if isinstance(error, Refused) else error.retriable and repeatable
                if not passes:
                    raise
                if not await self._link.pause(backoff, deadline):
                    if isinstance(error, TimedOut):
                        raise
                    raise TimedOut(f"gave up after {limit:g} s: {error}") from None
                if failed is not None:
                    failed()

    async def _ask(
        self,
        request: Message,
        answer_type: type[Answer],
        read: Callable[[Answer], Result],
        *,
        node: int | None = None,
    ) -> Result:
        """Ask any broker, or one, and read the answer; what is the controller's is passed on to it."""

        async def once(limit: float) -> Result:
            if node is None:
                return read(await self._link.call(request, answer_type, limit))
            if node not in self._link.view.brokers:
                await self._known_broker(node, limit)
            return read(await self._link.call_node(node, request, answer_type, limit))

        return await self._patiently(once)

    async def _each(
        self,
        keys: Iterable[Key],
        ask: Callable[[list[Key], float], Awaitable[Outcomes[Key, Result]]],
        *,
        repeatable: bool = True,
    ) -> dict[Key, Result]:
        """Ask for several things until each has an answer that is final; ItemsRefused if any is a refusal.

        `ask` gets what is left and the seconds that one request may take.
        """
        left = list(dict.fromkeys(keys))
        order = {key: at for at, key in enumerate(left)}
        outcomes: dict[Key, Result | Refused] = {}

        async def once(limit: float) -> None:
            asked = [key for key in left if key not in outcomes or _waits(outcomes[key])]
            outcomes.update(await ask(asked, limit))
            for key in asked:
                outcome = outcomes.get(key)
                if isinstance(outcome, Refused) and may_pass(outcome):
                    raise outcome
                if key not in outcomes:
                    outcomes[key] = refusal(
                        ErrorCode.UNKNOWN_SERVER_ERROR, "the answer leaves it out", str(key)
                    )

        if left:
            try:
                await self._patiently(once, repeatable=repeatable)
            except TimedOut:
                # What is known of each tells more than that time ran out.
                if not all(key in outcomes for key in left):
                    raise
        ordered = sorted(outcomes, key=lambda key: order.get(key, len(order)))
        return all_done({key: outcomes[key] for key in ordered})

    async def _each_at_any(
        self,
        keys: Iterable[Key],
        request: Callable[[list[Key]], Message],
        answer_type: type[Answer],
        read: Callable[[Answer], Outcomes[Key, Result]],
        *,
        repeatable: bool = True,
    ) -> dict[Key, Result]:
        """As `_each`, where one request to any broker names them all."""

        async def ask(left: list[Key], limit: float) -> Outcomes[Key, Result]:
            return read(await self._link.call(request(left), answer_type, limit))

        return await self._each(keys, ask, repeatable=repeatable)

    async def _each_at_leaders(
        self,
        places: Iterable[TopicPartition],
        request: Callable[[list[TopicPartition]], Message],
        answer_type: type[Answer],
        read: Callable[[Answer], Outcomes[TopicPartition, Result]],
    ) -> dict[TopicPartition, Result]:
        """As `_each`, of the leaders of partitions, all of them at a time."""

        async def ask(left: list[TopicPartition], limit: float) -> Outcomes[TopicPartition, Result]:
            by_leader, leaderless = await self._by_leader(left, limit)
            outcomes: dict[TopicPartition, Result | Refused] = {**leaderless}

            async def at(node: int, led: list[TopicPartition]) -> Outcomes[TopicPartition, Result]:
                try:
                    return read(await self._link.call_node(node, request(led), answer_type, limit))
                except EverlogError as error:
                    if isinstance(error, Refused) or not error.retriable:
                        raise
                    # Another broker may lead by now. Those of the other leaders need not be asked again.
                    lost = refusal(ErrorCode.LEADER_NOT_AVAILABLE, str(error), ", ".join(map(str, led)))
                    return dict.fromkeys(led, lost)

            for answered in await asyncio.gather(*(at(node, led) for node, led in by_leader.items())):
                outcomes.update(answered)
            return outcomes

        return await self._each(places, ask)

    async def _by_leader(
        self, places: Collection[TopicPartition], limit: float
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, Refused]]:
        """Partitions by who leads them now, and why that is not known of the others."""
        view = await self._link.refresh(sorted({place.topic for place in places}), timeout=limit)
        by_leader: dict[int, list[TopicPartition]] = {}
        leaderless: dict[TopicPartition, Refused] = {}
        for place in places:
            topic, partition = view.topics.get(place.topic), view.partition(place)
            if partition is None:
                known = topic is not None and topic.error is ErrorCode.NONE
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None or known else topic.error
                said = "no such partition" if known else "no such topic"
                leaderless[place] = refusal(code, said, f"partition {place}")
            elif partition.leader not in view.brokers:
                leaderless[place] = refusal(
                    ErrorCode.LEADER_NOT_AVAILABLE, "it has no leader", f"partition {place}"
                )
            else:
                by_leader.setdefault(partition.leader, []).append(place)
        return by_leader, leaderless

    async def _at_coordinator(
        self,
        kind: CoordinatorKind,
        key: str,
        request: Message,
        answer_type: type[Answer],
        codes: Callable[[Answer], Iterable[int]],
        *,
        at_most: int | None = None,
        repeatable: bool = True,
    ) -> Answer:
        """Ask a coordinator until none of the `codes` of its answer is a passing one."""

        async def once(limit: float) -> Answer:
            answer = await self._link.call_coordinator(
                kind, key, request, answer_type, limit, at_most=at_most
            )
            for number in codes(answer):
                problem = refusal(number, None, f"{kind.noun} {key!r}")
                if number != ErrorCode.NONE and may_pass(problem):
                    raise problem
            return answer

        def failed() -> None:
            self._link.forget_coordinator(kind, key)

        return await self._patiently(once, failed, repeatable=repeatable)

    async def _coordinator(self, kind: CoordinatorKind, key: str) -> Broker:
        """The broker that looks after a group or a transactional id."""
        return await self._patiently(lambda _limit: self._link.coordinator(kind, key))

    async def _at_all_brokers(
        self, request: Message, answer_type: type[Answer], read: Callable[[Answer, int], Result]
    ) -> list[Result]:
        """Ask every broker of the cluster, all of them at a time; in the order of their ids."""
        view = await self._patiently(lambda limit: self._link.refresh([], timeout=limit))

        async def at(node: int) -> Result:
            return await self._ask(request, answer_type, lambda answer: read(answer, node), node=node)

        return await asyncio.gather(*(at(node) for node in sorted(view.brokers)))

    async def _known_broker(self, node: int, limit: float) -> None:
        """Refused if the cluster has no such broker now."""
        view = await self._link.refresh([], timeout=limit)
        if node not in view.brokers:
            known = ", ".join(str(broker) for broker in sorted(view.brokers))
            raise refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"expected one of {known}", f"broker {node}")


def _waits(outcome: object) -> bool:
    return isinstance(outcome, Refused) and may_pass(outcome)
