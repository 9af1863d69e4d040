"""All fuzz targets, by name."""

from tests.fuzz.column_targets import COLUMN_TARGETS
from tests.fuzz.connection_targets import CONNECTION_TARGETS
from tests.fuzz.file_targets import FILE_TARGETS
from tests.fuzz.record_targets import RECORD_TARGETS
from tests.fuzz.row_targets import ROW_TARGETS
from tests.fuzz.run_targets import RUN_TARGETS
from tests.fuzz.target import Target
from tests.fuzz.tool_targets import TOOL_TARGETS
from tests.fuzz.wire_targets import WIRE_TARGETS

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        *CONNECTION_TARGETS,
        *WIRE_TARGETS,
        *RUN_TARGETS,
        *RECORD_TARGETS,
        *ROW_TARGETS,
        *COLUMN_TARGETS,
        *FILE_TARGETS,
        *TOOL_TARGETS,
    )
}
