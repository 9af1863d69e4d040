"""`everlog chaos list`."""

from everlog.chaos.means import Means, probe
from everlog.chaos.steps import GRAMMAR, SCENARIOS, Verb, Who
from everlog.cli.command import command
from everlog.cli.output import Report, Table

EXAMPLES = """
$ everlog chaos list
$ everlog chaos list --json | jq '.means'
"""


@command("list", examples=EXAMPLES)
def list_scenarios() -> Report:
    """List the scenarios, the steps that others can be made of, and what this machine can break."""
    means = {each: probe(each) for each in Means}
    data = {
        "scenarios": [
            {
                "name": scenario.name,
                "meaning": scenario.meaning,
                "steps": [str(step) for step in scenario.steps],
                "min_isr": scenario.min_isr,
            }
            for scenario in SCENARIOS.values()
        ],
        "steps": [{"step": _written(verb), "meaning": GRAMMAR[verb].meaning} for verb in Verb],
        "means": [
            {"means": each.value, "there": found.there, "detail": found.detail}
            for each, found in means.items()
        ],
    }
    blocks = [
        Table(("SCENARIO", "WHAT HAPPENS"), [(each.name, each.meaning) for each in SCENARIOS.values()]),
        Table(("STEP", "MEANING"), [(_written(verb), GRAMMAR[verb].meaning) for verb in Verb]),
        Table(
            ("MEANS", "HERE", "DETAIL"),
            [(each.value, found.there, found.detail) for each, found in means.items()],
        ),
    ]
    return Report(data, blocks)


def _written(verb: Verb) -> str:
    grammar = GRAMMAR[verb]
    who = f":{'|'.join(Who)}" if grammar.takes_who else ""
    amount = f"[:{grammar.unit.upper()}]" if grammar.unit else ""
    return f"{verb}{who}{amount}"
