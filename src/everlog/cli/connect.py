"""How commands reach a cluster."""

from typing import TYPE_CHECKING, Any

from everlog.client.sync.admin import Admin

if TYPE_CHECKING:
    from everlog.client.sync.producer import Producer


def open_admin(bootstrap: str, timeout: float) -> Admin:
    """An Admin whose calls give up after `timeout` seconds."""
    limit_ms = max(1, int(timeout * 1000))
    return Admin(
        bootstrap,
        client_id="everlog-cli",
        default_api_timeout_ms=limit_ms,
        request_timeout_ms=limit_ms,
        socket_connection_setup_timeout_ms=limit_ms,
        retry_backoff_ms=50,
    )


def check_reachable(bootstrap: str, timeout: float) -> None:
    """Fail at once if there is no cluster; a producer would wait for it to come up."""
    with open_admin(bootstrap, timeout) as admin:
        admin.describe_cluster()


def open_producer(bootstrap: str, timeout: float, **options: Any) -> "Producer":
    """A Producer that gives up on a topic after `timeout` seconds, and on a record after three times that."""
    from everlog.client.sync.producer import Producer  # most commands do not send, and need not pay for it

    limit_ms = max(1, int(timeout * 1000))
    settings: dict[str, Any] = {
        "client_id": "everlog-cli",
        "linger_ms": 5,
        "max_block_ms": limit_ms,
        "request_timeout_ms": limit_ms,
        "delivery_timeout_ms": 3 * limit_ms + 5,
        "socket_connection_setup_timeout_ms": limit_ms,
        "retry_backoff_ms": 50,
        **options,
    }
    return Producer(bootstrap, **settings)
