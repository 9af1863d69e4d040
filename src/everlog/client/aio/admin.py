"""The admin client for programs that have a loop: everything that is asked of a cluster but records.

It can do many things, of which a program asks for few. So modules of calls import what a call needs within
it, except for topics: a command should not wait for what it does not use.
"""

from types import TracebackType
from typing import Self, Unpack

from everlog.client.aio.admin_cluster import ClusterCalls
from everlog.client.aio.admin_configs import ConfigCalls
from everlog.client.aio.admin_group_offsets import GroupOffsetCalls
from everlog.client.aio.admin_security import SecurityCalls
from everlog.client.aio.admin_txns import TransactionCalls
from everlog.client.core.admin.settings import AdminOptions, AdminSettings
from everlog.client.core.settings import read_settings


class Admin(GroupOffsetCalls, ConfigCalls, TransactionCalls, SecurityCalls, ClusterCalls):
    """Looks at a cluster and changes it: topics, settings, groups, transactions, access, brokers.

    >>> async with everlog.aio.Admin("127.0.0.1:9092") as admin:
    ...     await admin.create_topic("orders", partitions=3)
    ...     await admin.describe_topics(["orders"])

    A call about several things does all that it can. If some were refused it then raises one `ItemsRefused`
    whose message names each of them; its `errors` has the reasons and its `done` the results of the rest,
    both by what was asked for. Otherwise it returns the results by what was asked for.

    What passes, such as a coordinator that moves or a controller that is elected, is tried again with
    `retry_backoff_ms` between, until `default_api_timeout_ms` have passed; then it is TimedOut. An API that
    the broker does not serve is Unsupported, with its name. Requests that are the controller's may go to any
    broker, which passes them on.
    """

    def __init__(
        self, bootstrap_servers: str | list[str] = "127.0.0.1:9092", **options: Unpack[AdminOptions]
    ) -> None:
        super().__init__(read_settings(AdminSettings, {"bootstrap_servers": bootstrap_servers, **options}))

    async def close(self) -> None:
        """Close all connections. Closing twice is harmless."""
        await self._link.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
