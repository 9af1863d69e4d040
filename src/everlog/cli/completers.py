"""What the shell may complete from the cluster itself: names of topics."""

import os

import click
from click.shell_completion import CompletionItem

from everlog.cli.options import DEFAULT_BOOTSTRAP
from everlog.model.errors import EverlogError

PATIENCE_SECONDS = 1.0


def complete_topics(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of topics that begin so. A cluster that does not answer completes nothing, quickly."""
    from everlog.client.sync.admin import Admin
    from everlog.client.sync.cluster import Cluster

    bootstrap = ctx.params.get("bootstrap") or os.environ.get("EVERLOG_BOOTSTRAP") or DEFAULT_BOOTSTRAP
    try:
        with Cluster(bootstrap, timeout=PATIENCE_SECONDS) as cluster:
            names = [topic.name for topic in Admin(cluster).describe_topics()]
    except EverlogError:
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
