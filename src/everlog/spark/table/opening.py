"""From options to the table that is meant."""

from collections.abc import Sequence

from everlog.spark.table.options import Column, TableOptions, are_records, spec_for_reading, spec_for_rows
from everlog.spark.table.writing import Target
from everlog.tables.declared import declared_table
from everlog.tables.spec import TableSpec
from everlog.tables.table import Table, open_table


def target_of(options: TableOptions, columns: Sequence[Column]) -> Target:
    """The table that rows of these columns go into; it is made, or gets new columns, where it has to."""
    spec = spec_for_rows(options, columns) if options.declared is None else declared_spec(options)
    open_table(spec)
    return Target(spec, are_records(spec, columns), options.checkpoint, options.client)


def table_to_read(options: TableOptions) -> Table:
    """The table that is to be read; NoSuchTable if it is not there."""
    spec = spec_for_reading(options) if options.declared is None else declared_spec(options)
    return open_table(spec, create=False)


def declared_spec(options: TableOptions) -> TableSpec:
    """The declaration of the table that the options name."""
    assert options.declared is not None, options
    assert options.bootstrap is not None, options
    return declared_table(options.bootstrap, options.declared, client=options.client)
