"""How commands reach a cluster."""

from typing import TYPE_CHECKING, Any

from everlog.cli.client_config import client_config
from everlog.client.sync.admin import Admin

if TYPE_CHECKING:
    from everlog.client.sync.producer import Producer


def open_admin(bootstrap: str, timeout: float) -> Admin:
    """An Admin whose calls give up after `timeout` seconds."""
    return Admin(bootstrap, default_api_timeout_ms=limit_ms_of(timeout), **client_settings(timeout))


def limit_ms_of(timeout: float) -> int:
    """`--timeout` in the unit of settings."""
    return max(1, int(timeout * 1000))


def client_settings(timeout: float) -> dict[str, Any]:
    """What each client of a command is told: when to give up on an answer, and what the user's file says."""
    limit_ms = limit_ms_of(timeout)
    return {
        "client_id": "everlog-cli",
        "request_timeout_ms": limit_ms,
        "socket_connection_setup_timeout_ms": limit_ms,
        "retry_backoff_ms": 50,
        **client_config(),
    }


def check_reachable(bootstrap: str, timeout: float) -> None:
    """Fail at once if there is no cluster; a producer would wait for it to come up."""
    with open_admin(bootstrap, timeout) as admin:
        admin.describe_cluster()


def open_producer(bootstrap: str, timeout: float, **options: Any) -> "Producer":
    """A Producer that gives up on a topic after `timeout` seconds, and on a record after three times that."""
    from everlog.client.sync.producer import Producer  # most commands do not send, and need not pay for it

    limit_ms = limit_ms_of(timeout)
    settings: dict[str, Any] = {
        "linger_ms": 5,
        "max_block_ms": limit_ms,
        "delivery_timeout_ms": 3 * limit_ms + 5,
        **client_settings(timeout),
        **options,
    }
    return Producer(bootstrap, **settings)
