"""What the shell may complete from the cluster itself: names of topics, groups and transactional ids."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from everlog.cli.options import DEFAULT_BOOTSTRAP
from everlog.model.errors import EverlogError

if TYPE_CHECKING:
    from everlog.client.sync.cluster import Cluster

PATIENCE_SECONDS = 1.0


def complete_topics(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of topics that begin so. A cluster that does not answer completes nothing, quickly."""
    from everlog.client.sync.admin import Admin

    return _complete(
        ctx, incomplete, lambda cluster: [topic.name for topic in Admin(cluster).describe_topics()]
    )


def complete_groups(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of groups that begin so."""
    from everlog.client.sync.group_admin import GroupAdmin

    return _complete(
        ctx, incomplete, lambda cluster: [group.group_id for group in GroupAdmin(cluster).list_groups()]
    )


def complete_transactional_ids(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The transactional ids that begin so."""
    from everlog.client.sync.txn_admin import TxnAdmin

    return _complete(
        ctx,
        incomplete,
        lambda cluster: [entry.transactional_id for entry in TxnAdmin(cluster).list_transactions()],
    )


def _complete(
    ctx: click.Context, incomplete: str, names: "Callable[[Cluster], list[str]]"
) -> list[CompletionItem]:
    from everlog.client.sync.cluster import Cluster

    bootstrap = ctx.params.get("bootstrap") or os.environ.get("EVERLOG_BOOTSTRAP") or DEFAULT_BOOTSTRAP
    try:
        with Cluster(bootstrap, timeout=PATIENCE_SECONDS) as cluster:
            return [CompletionItem(name) for name in names(cluster) if name.startswith(incomplete)]
    except EverlogError:
        return []
