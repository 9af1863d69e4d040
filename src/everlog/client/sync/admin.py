"""The blocking admin client: everything that is asked of a cluster but records."""

from types import TracebackType
from typing import Self, Unpack

from everlog.client.aio.admin import Admin as AsyncAdmin
from everlog.client.core.admin.settings import AdminOptions
from everlog.client.drive import forks
from everlog.client.sync.admin_cluster import ClusterCalls
from everlog.client.sync.admin_configs import ConfigCalls
from everlog.client.sync.admin_group_offsets import GroupOffsetCalls
from everlog.client.sync.admin_groups import GroupCalls
from everlog.client.sync.admin_security import SecurityCalls
from everlog.client.sync.admin_topics import TopicCalls
from everlog.client.sync.admin_txns import TransactionCalls
from everlog.client.sync.portal import Portal


class Admin(
    TopicCalls, GroupCalls, GroupOffsetCalls, ConfigCalls, TransactionCalls, SecurityCalls, ClusterCalls
):
    """Looks at a cluster and changes it: topics, settings, groups, transactions, access, brokers.

    >>> with everlog.Admin("127.0.0.1:9092") as admin:
    ...     admin.create_topic("orders", partitions=3)
    ...     admin.describe_topics(["orders"])

    A call about several things does all that it can. If some were refused it then raises one `ItemsRefused`
    whose message names each of them; its `errors` has the reasons and its `done` the results of the rest,
    both by what was asked for. Otherwise it returns the results by what was asked for.

    What passes, such as a coordinator that moves or a controller that is elected, is tried again with
    `retry_backoff_ms` between, until `default_api_timeout_ms` have passed; then it is TimedOut. An API that
    the broker does not serve is Unsupported, with its name. Requests that are the controller's may go to any
    broker, which passes them on. Any thread may call, several at a time.
    """

    def __init__(
        self, bootstrap_servers: str | list[str] = "127.0.0.1:9092", **options: Unpack[AdminOptions]
    ) -> None:
        admin = AsyncAdmin(bootstrap_servers, **options)
        super().__init__(admin, Portal("everlog-admin"))
        self._is_closed = False
        forks.watch(self, Admin._inherited)

    def close(self) -> None:
        """Close all connections and end the thread. Closing twice is harmless."""
        if not self._is_closed and not self._portal.is_lost:
            self._portal.check()
            self._is_closed = True
            try:
                self._run(self._admin.close())
            finally:
                self._portal.close()

    def _inherited(self, why: str) -> None:
        """This is another process now: take no more calls."""
        self._portal.inherited(why, self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
