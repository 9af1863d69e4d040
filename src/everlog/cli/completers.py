"""What the shell may complete from the cluster itself: names of topics, groups and transactional ids."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from everlog.cli.options import DEFAULT_BOOTSTRAP
from everlog.model.errors import EverlogError

if TYPE_CHECKING:
    from everlog.client.sync.admin import Admin

PATIENCE_SECONDS = 1.0


def complete_topics(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of topics that begin so. A cluster that does not answer completes nothing, quickly."""
    return _complete(ctx, incomplete, lambda admin: admin.list_topics(internal=True))


def complete_groups(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of groups that begin so."""
    return _complete(ctx, incomplete, lambda admin: [group.group_id for group in admin.list_groups()])


def complete_transactional_ids(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The transactional ids that begin so."""
    return _complete(
        ctx, incomplete, lambda admin: [entry.transactional_id for entry in admin.list_transactions()]
    )


def _complete(
    ctx: click.Context, incomplete: str, names: "Callable[[Admin], list[str]]"
) -> list[CompletionItem]:
    from everlog.cli.connect import open_admin

    bootstrap = ctx.params.get("bootstrap") or os.environ.get("EVERLOG_BOOTSTRAP") or DEFAULT_BOOTSTRAP
    try:
        with ctx.scope(cleanup=False), open_admin(bootstrap, PATIENCE_SECONDS) as admin:
            return [CompletionItem(name) for name in names(admin) if name.startswith(incomplete)]
    except EverlogError:
        return []
