"""How commands reach a cluster."""

from everlog.client.sync.admin import Admin


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
