"""`everlog cluster decommission`."""

import time

import click

from everlog.cli.cluster_facts import describe_brokers, quorum_of
from everlog.cli.cluster_reassign import execute, throttle_option
from everlog.cli.command import command
from everlog.cli.connect import open_admin
from everlog.cli.moves import POLL_SECONDS, Layout, layout_of, move_shape, plan_blocks
from everlog.cli.options import bootstrap_option, confirm, dry_run_option, yes_option
from everlog.cli.output import Line, Report
from everlog.cli.shapes import counted, size_text
from everlog.client.core.admin.outcomes import ItemsRefused
from everlog.client.core.admin.reassign_plan import ReassignPlan, plan_departure
from everlog.client.core.errors import TimedOut, refusal
from everlog.client.sync.admin import Admin
from everlog.model.errors import ConfigError, ErrorCode, EverlogError, Refused
from everlog.model.ids import NO_UUID

EXAMPLES = """
$ everlog cluster decommission 4 --dry-run                  # what would move where
$ everlog cluster decommission 4 --throttle 50M
$ everlog cluster decommission 4 --yes --keep-registered    # only empty it
"""

_LEFT_TO_DO = "node {} is still a voter: take it out of controller.quorum.voters of the others"
_ROUNDS = 5
"""Topics may be created while the broker is emptied; after so many rounds it is told that they do not end."""


@command("decommission", examples=EXAMPLES)
@click.argument("broker", type=click.IntRange(min=0))
@throttle_option
@click.option(
    "--stop-timeout",
    type=click.FloatRange(min=0),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait, once it is empty, for somebody to stop it.",
)
@click.option("--keep-registered", is_flag=True, help="Empty the broker, and leave it in the cluster.")
@yes_option
@dry_run_option
@bootstrap_option
def decommission(
    *,
    broker: int,
    throttle: int | None,
    stop_timeout: float,
    keep_registered: bool,
    yes: bool,
    dry_run: bool,
    bootstrap: str,
    timeout: float,
) -> Report:
    """Take a broker out of the cluster for good: move all it has to the others, then forget it.

    The broker may be down already. If it runs, it has to be stopped once it is empty: the command says when,
    waits for that, and then unregisters it. If it also votes in the quorum of controllers, its vote is
    taken away too.
    """
    with open_admin(bootstrap, timeout) as admin:
        layout = layout_of(admin)
        if broker not in layout.racks and broker not in layout.fenced:
            known = ", ".join(map(str, sorted({*layout.racks, *layout.fenced})))
            raise refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"expected one of {known}", f"broker {broker}")
        try:
            plan = _plan(layout, broker)
        except ConfigError as error:
            raise click.UsageError(f"broker {broker} cannot go: {error}") from None
        data: dict[str, object] = {
            "dry_run": dry_run,
            "broker": broker,
            "bytes_to_move": plan.bytes_to_move,
            "moves": [move_shape(move) for move in plan.moves],
            "empty": not plan.moves,
            "unregistered": False,
            "vote_removed": False,
            "note": None,
        }
        blocks = (
            plan_blocks(plan, layout.leaders) if plan.moves else [Line(f"broker {broker} has no replicas")]
        )
        if dry_run:
            return Report(data, blocks)
        for block in blocks:
            for line in block.lines():
                click.echo(line, err=True)
        size = size_text(plan.bytes_to_move)
        what = f"Move {counted(len(plan.moves), 'partition')} ({size}) away from broker {broker}"
        if not confirm(f"{what}{'' if keep_registered else ' and forget it'}?", yes=yes):
            raise click.Abort
        errors = _empty(admin, broker, layout, plan, throttle)
        data["empty"] = not errors
        if errors:
            return Report(data, [], errors)
        if keep_registered:
            return Report(data, [Line(f"broker {broker} has no replicas any more")])
        _await_stop(admin, broker, stop_timeout)
        data["vote_removed"], data["note"] = _remove_vote(admin, broker)
        admin.unregister_broker(broker)
        data["unregistered"] = True
        gone = " and votes no more" if data["vote_removed"] else ""
        said = [Line(f"broker {broker} is out of the cluster{gone}")]
        if data["note"] is not None:
            said.append(Line(f"note: {data['note']}"))
        return Report(data, said)


def _plan(layout: Layout, broker: int) -> ReassignPlan:
    return plan_departure(layout.replicas, {broker}, layout.racks, layout.sizes)


def _empty(admin: Admin, broker: int, layout: Layout, plan: ReassignPlan, throttle: int | None) -> list[str]:
    """Move until the broker has nothing; returns in words what cannot be moved."""
    for _ in range(_ROUNDS):
        if not plan.moves:
            return []
        try:
            failed, _notes, _ended = execute(admin, layout, plan, throttle=throttle)
        except ItemsRefused as error:
            return [f"nothing was moved: {error}"]
        if failed:
            return [str(error) for error in failed.values()]
        layout = layout_of(admin)
        plan = _plan(layout, broker)
    return [
        f"broker {broker} still gets replicas of new topics after {_ROUNDS} rounds, expected none: "
        "stop it, then decommission it"
    ]


def _await_stop(admin: Admin, broker: int, limit_s: float) -> None:
    """Return once the broker is fenced or gone: a broker that runs would register anew."""
    deadline = time.monotonic() + limit_s
    told = False
    while True:
        cluster = describe_brokers(admin)
        if broker in cluster.fenced or broker not in {each.node_id for each in cluster.brokers}:
            return
        if time.monotonic() >= deadline:
            raise TimedOut(
                f"broker {broker} still runs after {limit_s:g} s, expected it to be stopped: it has no "
                "replicas any more; stop it and run the same again"
            )
        if not told:
            click.echo(
                f"broker {broker} has no replicas any more: stop it now, then it is unregistered", err=True
            )
            told = True
        time.sleep(POLL_SECONDS)


def _remove_vote(admin: Admin, broker: int) -> tuple[bool, str | None]:
    """Take the broker's vote in the quorum away, if it has one; what is left to do if that cannot be done."""
    quorum = quorum_of(admin)
    voter = None if quorum is None else next((each for each in quorum.voters if each.node_id == broker), None)
    if voter is None:
        return False, None
    if voter.directory_id == NO_UUID:
        return False, _LEFT_TO_DO.format(broker)
    try:
        admin.remove_raft_voter(broker, voter.directory_id)
    except Refused as error:
        return False, f"{_LEFT_TO_DO.format(broker)} ({error})"
    except EverlogError:
        # The answer was lost, not necessarily the request: what counts is who votes now.
        quorum = quorum_of(admin)
        if quorum is None or any(each.node_id == broker for each in quorum.voters):
            raise
    return True, None
