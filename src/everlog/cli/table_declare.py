"""`everlog table declare|drop`."""

from pathlib import Path
from typing import Any

import click

from everlog.cli.command import command
from everlog.cli.completers import complete_topics
from everlog.cli.connect import check_reachable, client_settings
from everlog.cli.options import bootstrap_option, confirm, dry_run_option, key_values, yes_option
from everlog.cli.output import Block, Line, Report
from everlog.cli.shapes import counted
from everlog.cli.table_place import all_specs, find_spec, table_argument
from everlog.cli.table_shapes import spec_fields, spec_shape
from everlog.tables.declared import declare as declare_table
from everlog.tables.declared import withdraw
from everlog.tables.errors import NoSuchTable, TableMisdeclared
from everlog.tables.schema import table_schema
from everlog.tables.spec import FORMATS, MODES, TableSpec
from everlog.tables.table import drop_table, open_table

DECLARE_EXAMPLES = """
$ everlog table declare orders --topic orders --location lake/orders --schema 'id long, item string'
$ everlog table declare customers --topic customers --format delta --mode upsert --key id \\
      --location lake/customers --schema 'id long, name string' --dead-letters customers.dlq
$ everlog table declare raw --topic clicks --location lake/clicks     # the bytes of the values
$ everlog table declare --file orders.toml --replace
"""


@command("declare", examples=DECLARE_EXAMPLES)
@click.argument("name", metavar="[TABLE]", required=False)
@click.option(
    "--topic", metavar="TOPIC", shell_complete=complete_topics, help="The topic that it is fed from."
)
@click.option("--location", metavar="DIR|URI", help="Where its files go.")
@click.option("--format", "table_format", type=click.Choice(FORMATS), help="[default: parquet]")
@click.option(
    "--mode",
    type=click.Choice(MODES),
    help="A row for each record, or the latest of each key.  [default: append]",
)
@click.option("--key", metavar="COLUMN,…", help="Upsert: what names a row.  [default: the record's key]")
@click.option("--schema", metavar="DDL", help="Columns of the value.  [default: its bytes]")
@click.option("--value-format", metavar="FORMAT", help="How values are read.  [default: json]")
@click.option("--debezium", is_flag=True, help="Values are change events of Debezium.")
@click.option("--partition-by", metavar="COLUMN,…", help="Columns whose values keep files apart.")
@click.option("--dead-letters", metavar="TOPIC", help="Where unreadable records go; without, they stop it.")
@click.option(
    "--property", "properties", multiple=True, metavar="KEY=VALUE", help="Of the format; repeatable."
)
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A declaration in TOML or JSON; options go before it.",
)
@click.option("--replace", is_flag=True, help="Replace a declaration of that name.")
@dry_run_option
@bootstrap_option
def declare(
    *, path: Path | None, replace: bool, dry_run: bool, bootstrap: str, timeout: float, **given: Any
) -> Report:
    """Declare that a topic is kept as a table. Nothing is read or written before `everlog table run`."""
    spec = _spec(path, given)
    table_schema(spec)
    check_reachable(bootstrap, timeout)
    known = {each.name for each in all_specs(bootstrap, timeout)}
    if spec.name in known and not replace:
        raise TableMisdeclared(f"table {spec.name} is declared already: expected --replace, or another name")
    if not dry_run:
        declare_table(bootstrap, spec, overwrite=replace, client=client_settings(timeout))
    did = "would declare" if dry_run else "declared"
    lines: list[Block] = [Line(f"{did} table {spec.name}"), spec_fields(spec)]
    return Report(
        {"dry_run": dry_run, "replaced": spec.name in known and not dry_run, "table": spec_shape(spec)}, lines
    )


def _spec(path: Path | None, given: dict[str, Any]) -> TableSpec:
    values: dict[str, Any] = {} if path is None else TableSpec.parse(path.read_text()).to_dict()
    options = {
        "name": given["name"],
        "topic": given["topic"],
        "location": given["location"],
        "format": given["table_format"],
        "mode": given["mode"],
        "key": _columns(given["key"]),
        "schema": given["schema"],
        "value_format": given["value_format"],
        "debezium": given["debezium"] or None,
        "partition_by": _columns(given["partition_by"]),
        "dead_letter_topic": given["dead_letters"],
        "properties": key_values(given["properties"], "--property") or None,
    }
    values |= {name: value for name, value in options.items() if value is not None}
    for name, option in (("name", "TABLE"), ("topic", "--topic"), ("location", "--location")):
        if name not in values:
            raise click.UsageError(f"{option} is missing: expected it, or --file with a declaration")
    # A directory is the same one for whoever runs the table later, from wherever.
    if "://" not in values["location"]:
        values["location"] = str(Path(values["location"]).absolute())
    return TableSpec.load(values)


def _columns(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


DROP_EXAMPLES = """
$ everlog table drop orders                      # the declaration; rows and files stay
$ everlog table drop orders --with-files --dry-run
$ everlog table drop orders --with-files --yes
"""


@command("drop", examples=DROP_EXAMPLES)
@table_argument
@click.option(
    "--with-files", is_flag=True, help="Also remove the table, with all rows. There is no way back."
)
@yes_option
@dry_run_option
@bootstrap_option
def drop(*, name: str, with_files: bool, yes: bool, dry_run: bool, bootstrap: str, timeout: float) -> Report:
    """Take the declaration of a table back. Its rows and files stay where they are, unless --with-files."""
    spec = find_spec(bootstrap, timeout, name)
    files = rows = 0
    found = False
    if with_files:
        try:
            described = open_table(spec, create=False).describe()
            files, rows, found = described.files, described.rows, True
        except NoSuchTable:
            pass
    plan = f"the declaration of table {name}"
    if found:
        plan += f" and its {counted(rows, 'row')} in {counted(files, 'file')} at {spec.location}"
    if not dry_run:
        if not confirm(f"Drop {plan}?", yes=yes):
            raise click.Abort
        if found:
            drop_table(spec)
        withdraw(bootstrap, name, client=client_settings(timeout))
    data = {
        "dry_run": dry_run,
        "table": name,
        "location": spec.location,
        "dropped": not dry_run,
        "files_removed": files if found and not dry_run else 0,
        "rows_removed": rows if found and not dry_run else 0,
    }
    return Report(data, [Line(f"{'would drop' if dry_run else 'dropped'} {plan}")])
