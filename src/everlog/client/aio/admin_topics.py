"""Topics and the records in them: what an Admin asks about these (asyncio)."""

from collections.abc import Iterable, Mapping, Sequence

from everlog.client.aio.admin_desk import AdminDesk
from everlog.client.core.admin.offset_listing import ListedOffset, OffsetAt, listing_request, read_listing
from everlog.client.core.admin.outcomes import ItemsRefused
from everlog.client.core.admin.topics import (
    BROKER_DEFAULT,
    NewPartitions,
    NewTopic,
    TopicCreated,
    TopicDescription,
    create_partitions_request,
    create_topics_request,
    delete_records_request,
    delete_topics_request,
    describe_topics_request,
    read_created,
    read_deleted,
    read_described,
    read_partitions_created,
    read_records_deleted,
    usable,
)
from everlog.client.core.errors import Unsupported
from everlog.model.errors import ConfigError, Refused
from everlog.model.ids import Uuid
from everlog.model.topics import TopicPartition
from everlog.wire.apis import ApiKey
from everlog.wire.messages.create_partitions import CreatePartitionsResponse
from everlog.wire.messages.create_topics import CreateTopicsResponse
from everlog.wire.messages.delete_records import DeleteRecordsResponse
from everlog.wire.messages.delete_topics import DeleteTopicsResponse
from everlog.wire.messages.list_offsets import ListOffsetsResponse
from everlog.wire.messages.metadata import MetadataResponse

FIRST_DELETE_VERSION_BY_ID = 6


class TopicCalls(AdminDesk):
    """Calls about topics."""

    async def create_topic(
        self,
        name: str,
        partitions: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        *,
        configs: Mapping[str, str] | None = None,
        wait: bool = True,
    ) -> TopicCreated:
        """Create one topic; -1 leaves a count to the broker's settings. See `create_topics`."""
        new = NewTopic(name, partitions, replication_factor, configs or {})
        return (await self.create_topics([new], wait=wait))[name]

    async def create_topics(
        self, topics: Iterable[NewTopic | str], *, validate_only: bool = False, wait: bool = True
    ) -> dict[str, TopicCreated]:
        """Create topics, or with `validate_only` say whether they could be created.

        With `wait` it returns once they can be used: all of their partitions have leaders.
        """
        wanted = {new.name: new for new in (NewTopic(t) if isinstance(t, str) else t for t in topics)}
        try:
            created = await self._each_at_any(
                wanted,
                lambda left: create_topics_request(
                    [wanted[name] for name in left], self._timeout_ms, validate_only=validate_only
                ),
                CreateTopicsResponse,
                read_created,
                repeatable=False,
            )
        except ItemsRefused as error:
            if wait and not validate_only and error.done:
                await self.wait_for_topics(error.done)
            raise
        if wait and not validate_only and created:
            await self.wait_for_topics(created)
        return created

    async def delete_topics(self, topics: Iterable[str | Uuid]) -> None:
        """Delete topics, by name or by id, and all of their records."""

        async def ask(left: Sequence[str | Uuid], limit: float) -> Mapping[str | Uuid, Refused | None]:
            broker = await self._link.any_broker(limit)
            by_id = not all(isinstance(topic, str) for topic in left)
            version = broker.versions.pick(ApiKey.DELETE_TOPICS)
            if by_id and version < FIRST_DELETE_VERSION_BY_ID:
                names = "names, as this broker serves only versions that know no ids"
                raise Unsupported(f"topics to delete: expected {names}")
            request = delete_topics_request(left, self._timeout_ms, version)
            return read_deleted(await broker.call(request, DeleteTopicsResponse, limit), left)

        await self._each(topics, ask, repeatable=False)

    async def list_topics(self, *, internal: bool = False) -> list[str]:
        """The names of all topics, sorted; with `internal` also those that the cluster keeps for itself."""
        described = await self.describe_topics()
        return [name for name, topic in described.items() if internal or not topic.is_internal]

    async def describe_topics(
        self, names: Iterable[str] | None = None, *, authorized_operations: bool = False
    ) -> dict[str, TopicDescription]:
        """Topics with their partitions, replicas and leaders by name; without names all of them."""
        if names is None:
            request = describe_topics_request(None, authorized_operations=authorized_operations)
            found = await self._ask(request, MetadataResponse, read_described)
            # One that is being created or deleted just now is not there yet, or no more.
            there = {name: topic for name, topic in found.items() if not isinstance(topic, Refused)}
            return dict(sorted(there.items()))

        return await self._each_at_any(
            names,
            lambda left: describe_topics_request(left, authorized_operations=authorized_operations),
            MetadataResponse,
            read_described,
        )

    async def wait_for_topics(
        self, names: Iterable[str], timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        """Wait until topics exist and all of their partitions are led; TimedOut after `timeout` seconds."""
        wanted = list(dict.fromkeys(names))

        async def once(_limit: float) -> dict[str, TopicDescription]:
            request = describe_topics_request(wanted, authorized_operations=False)
            answer = await self._link.ask(request, MetadataResponse)
            alive = {broker.node_id for broker in answer.brokers}
            return usable(read_described(answer), wanted, alive)

        return await self._patiently(once, timeout=timeout)

    async def create_partitions(
        self, totals: Mapping[str, int | NewPartitions], *, validate_only: bool = False
    ) -> None:
        """Give topics more partitions, `totals` being how many there shall be; records do not move."""
        wanted = {
            name: total if isinstance(total, NewPartitions) else NewPartitions(total)
            for name, total in totals.items()
        }
        await self._each_at_any(
            wanted,
            lambda left: create_partitions_request(
                {name: wanted[name] for name in left}, self._timeout_ms, validate_only=validate_only
            ),
            CreatePartitionsResponse,
            read_partitions_created,
            repeatable=False,
        )

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records that lie before an offset of each partition, -1 being the end.

        Returns the first offset that is left in each.
        """
        return await self._each_at_leaders(
            before,
            lambda led: delete_records_request({place: before[place] for place in led}, self._timeout_ms),
            DeleteRecordsResponse,
            read_records_deleted,
        )

    async def list_offsets(
        self,
        places: Iterable[TopicPartition],
        at: int = OffsetAt.LATEST,
        *,
        isolation_level: str = "read_uncommitted",
    ) -> dict[TopicPartition, ListedOffset | None]:
        """The offset in each partition of the first record with a timestamp (ms) of `at` or later.

        `at` may also be one of `OffsetAt`, such as EARLIEST. None where there is no such record.
        """
        if isolation_level not in ("read_uncommitted", "read_committed"):
            raise ConfigError(
                f"isolation_level={isolation_level!r}: expected 'read_uncommitted' or 'read_committed'"
            )
        return await self._each_at_leaders(
            places,
            lambda led: listing_request(
                led,
                at,
                self._link.view,
                read_committed=isolation_level == "read_committed",
                timeout_ms=self._timeout_ms,
            ),
            ListOffsetsResponse,
            read_listing,
        )
