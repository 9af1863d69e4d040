"""`everlog pipeline init`."""

from pathlib import Path

import click

from everlog.cli.command import command
from everlog.cli.output import Block, Line, Report, Table
from everlog.pipelines.scaffold import DEFAULT_TEMPLATE, create_project, templates

EXAMPLES = """
$ everlog pipeline init --list
$ everlog pipeline init sales                       # the template starter, in ./sales
$ everlog pipeline init volumes --template windows
"""


@command("init", examples=EXAMPLES)
@click.argument("name", required=False, type=click.Path(path_type=Path))
@click.option(
    "-t",
    "--template",
    default=DEFAULT_TEMPLATE,
    show_default=True,
    metavar="NAME",
    help="What to start from.",
)
@click.option("--list", "listing", is_flag=True, help="List the templates, and make nothing.")
def init(*, name: Path | None, template: str, listing: bool) -> Report:
    """Make a project: a new directory NAME with spark-pipeline.yml, flows and sample data."""
    if listing:
        return _list()
    if name is None:
        raise click.UsageError("NAME is missing: the directory to make (or --list)")
    from everlog.spark.session import require_pyspark

    require_pyspark()
    project = create_project(name, template)
    files = sorted(str(path.relative_to(project.root)) for path in project.root.rglob("*") if path.is_file())
    data = {"name": project.name, "path": str(project.root), "template": template, "files": files}
    blocks: list[Block] = [Line(f"made {name} from the template {template}: {project.title}")]
    blocks += [Line(f"  {file}") for file in files]
    steps = [f"everlog pipeline run {name}", f"everlog pipeline status {name}"]
    if project.topics:
        steps.insert(0, f"everlog pipeline seed {name}")
    blocks += [Line("next:"), *(Line(f"  {step}") for step in steps)]
    return Report(data, blocks)


def _list() -> Report:
    found = templates()
    data = {
        "templates": [
            {
                "name": template.name,
                "title": template.title,
                "description": template.description,
                "topics": list(template.topics),
            }
            for template in found
        ]
    }
    return Report(data, [Table(("TEMPLATE", "WHAT IT DOES"), [(each.name, each.title) for each in found])])
