"""Topics and the records in them: what an Admin asks about these (blocking)."""

from collections.abc import Iterable, Mapping

from everlog.client.core.admin.offset_listing import ListedOffset, OffsetAt
from everlog.client.core.admin.topics import (
    BROKER_DEFAULT,
    NewPartitions,
    NewTopic,
    TopicCreated,
    TopicDescription,
)
from everlog.client.sync.admin_desk import AdminDesk
from everlog.model.ids import Uuid
from everlog.model.topics import TopicPartition


class TopicCalls(AdminDesk):
    """Calls about topics."""

    def create_topic(
        self,
        name: str,
        partitions: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        *,
        configs: Mapping[str, str] | None = None,
        wait: bool = True,
    ) -> TopicCreated:
        """Create one topic; -1 leaves a count to the broker's settings. See `create_topics`."""
        return self._run(
            self._admin.create_topic(name, partitions, replication_factor, configs=configs, wait=wait)
        )

    def create_topics(
        self, topics: Iterable[NewTopic | str], *, validate_only: bool = False, wait: bool = True
    ) -> dict[str, TopicCreated]:
        """Create topics, or with `validate_only` say whether they could be created.

        With `wait` it returns once they can be used: all of their partitions have leaders.
        """
        return self._run(self._admin.create_topics(topics, validate_only=validate_only, wait=wait))

    def delete_topics(self, topics: Iterable[str | Uuid]) -> None:
        """Delete topics, by name or by id, and all of their records."""
        return self._run(self._admin.delete_topics(topics))

    def list_topics(self, *, internal: bool = False) -> list[str]:
        """The names of all topics, sorted; with `internal` also those that the cluster keeps for itself."""
        return self._run(self._admin.list_topics(internal=internal))

    def describe_topics(
        self, names: Iterable[str] | None = None, *, authorized_operations: bool = False
    ) -> dict[str, TopicDescription]:
        """Topics with their partitions, replicas and leaders by name; without names all of them."""
        return self._run(self._admin.describe_topics(names, authorized_operations=authorized_operations))

    def wait_for_topics(
        self, names: Iterable[str], timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        """Wait until topics exist and all of their partitions are led; TimedOut after `timeout` seconds."""
        return self._run(self._admin.wait_for_topics(names, timeout))

    def create_partitions(
        self, totals: Mapping[str, int | NewPartitions], *, validate_only: bool = False
    ) -> None:
        """Give topics more partitions, `totals` being how many there shall be; records do not move."""
        return self._run(self._admin.create_partitions(totals, validate_only=validate_only))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records that lie before an offset of each partition, -1 being the end.

        Returns the first offset that is left in each.
        """
        return self._run(self._admin.delete_records(before))

    def list_offsets(
        self,
        places: Iterable[TopicPartition],
        at: int = OffsetAt.LATEST,
        *,
        isolation_level: str = "read_uncommitted",
    ) -> dict[TopicPartition, ListedOffset | None]:
        """The offset in each partition of the first record with a timestamp (ms) of `at` or later.

        `at` may also be one of `OffsetAt`, such as EARLIEST. None where there is no such record.
        """
        return self._run(self._admin.list_offsets(places, at, isolation_level=isolation_level))
