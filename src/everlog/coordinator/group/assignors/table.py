"""The assignors by the names that clients and settings call them."""

from everlog.coordinator.group.assignors import Assignor
from everlog.coordinator.group.assignors.range import assign_ranges
from everlog.coordinator.group.assignors.uniform import assign_uniformly

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
