"""`everlog cluster health`."""

from collections import Counter

import click

from everlog.cli.cluster_facts import gather_facts
from everlog.cli.command import command
from everlog.cli.connect import open_admin
from everlog.cli.options import bootstrap_option
from everlog.cli.output import Block, Fields, Line, Report, Table
from everlog.client.core.admin.health import ClusterFacts, Finding, HealthLimits, Trouble, examine

EXAMPLES = """
$ everlog cluster health
$ everlog cluster health --disk-used 80 --json
$ everlog cluster health || page-somebody          # the exit code is 1 if the cluster is not healthy
"""

_SHOWN = 20


@command("health", examples=EXAMPLES)
@click.option(
    "--disk-used",
    type=click.FloatRange(0, 100),
    default=90.0,
    show_default=True,
    metavar="PERCENT",
    help="From where on a disk counts as full.",
)
@click.option(
    "--voter-lag",
    type=click.IntRange(min=0),
    default=10_000,
    show_default=True,
    metavar="MS",
    help="How long ago a voter of the quorum may have been caught up.",
)
@click.option("--strict", is_flag=True, help="Notices, such as uneven leaders, count as well.")
@bootstrap_option
def health(*, disk_used: float, voter_lag: int, strict: bool, bootstrap: str, timeout: float) -> Report:
    """Say what is wrong with a cluster; the exit code is 1 if anything is.

    Looks for partitions without leader, below min.insync.replicas, under-replicated, with offline replicas;
    for brokers that are fenced or do not answer; for failed directories and full disks; for voters of
    the quorum that lag; and for leaders that are not where they should be, which is a notice only.
    """
    limits = HealthLimits(disk_used_percent=disk_used, voter_lag_ms=voter_lag)
    with open_admin(bootstrap, timeout) as admin:
        facts = gather_facts(admin)
    return _report(facts, examine(facts, limits), strict=strict)


def _report(facts: ClusterFacts, findings: list[Finding], *, strict: bool) -> Report:
    serious = [finding for finding in findings if strict or not finding.is_notice]
    counts = Counter(finding.trouble for finding in findings)
    partitions = sum(1 for _ in facts.partitions())
    data = {
        "healthy": not serious,
        "cluster_id": facts.cluster.cluster_id,
        "brokers": len(facts.cluster.brokers),
        "fenced_brokers": sorted(facts.cluster.fenced),
        "topics": len(facts.topics),
        "partitions": partitions,
        "voters": None if facts.quorum is None else len(facts.quorum.voters),
        "counts": {trouble.name.lower(): counts[trouble] for trouble in Trouble},
        "findings": [
            {
                "trouble": finding.trouble.name.lower(),
                "subject": finding.subject,
                "detail": finding.detail,
                "notice": finding.is_notice,
            }
            for finding in findings
        ],
    }
    blocks: list[Block] = [
        Fields(
            [
                ("cluster", facts.cluster.cluster_id),
                ("healthy", not serious),
                ("brokers", _brokers_text(facts)),
                ("partitions", partitions),
                ("voters", None if facts.quorum is None else len(facts.quorum.voters)),
            ]
        )
    ]
    if findings:
        rows = [(finding.trouble.value, finding.subject, finding.detail) for finding in findings[:_SHOWN]]
        blocks.append(Table(("TROUBLE", "WHAT", "DETAIL"), rows))
        if len(findings) > _SHOWN:
            blocks.append(Line(f"… and {len(findings) - _SHOWN} more: --json has all of them"))
    return Report(data, blocks, [_verdict(facts, serious)] if serious else [])


def _brokers_text(facts: ClusterFacts) -> str:
    fenced = len(facts.cluster.fenced)
    total = len(facts.cluster.brokers)
    return f"{total}, {fenced} of them fenced" if fenced else str(total)


def _verdict(facts: ClusterFacts, serious: list[Finding]) -> str:
    counts = Counter(finding.trouble for finding in serious)
    named = [f"{count} × {trouble.value}" for trouble, count in counts.items()]
    return f"cluster {facts.cluster.cluster_id} is not healthy: {', '.join(named)}"
