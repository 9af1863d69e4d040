"""The settings of an Admin."""

from dataclasses import dataclass

from everlog.client.core.settings import ConnectionOptions, ConnectionSettings, setting, whole


class AdminOptions(ConnectionOptions, total=False):
    """Keyword arguments of an Admin."""

    default_api_timeout_ms: int


@dataclass(frozen=True, kw_only=True)
class AdminSettings(ConnectionSettings):
    """How an Admin talks to a cluster."""

    default_api_timeout_ms: int = setting(
        60_000, whole(1), "how long a call may take, with everything that is tried again within it"
    )
