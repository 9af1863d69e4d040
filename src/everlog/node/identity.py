"""Whose log directories these are: `meta.properties`, written once and checked at every start."""

from collections.abc import Iterable

from everlog.log.checkpoint import META_PROPERTIES, MetaProperties, read_meta_properties, replace_file
from everlog.model.errors import ConfigError
from everlog.model.ids import Uuid, uuid_text
from everlog.ports.files import Files
from everlog.ports.random import Random


def identify(
    files: Files, directories: Iterable[str], node_id: int, random: Random, told: str | None = None
) -> tuple[str, dict[str, Uuid]]:
    """Return the cluster's id and each directory's, giving new ones to directories without.

    `told` is the cluster's id by the node's settings, if they name one.

    ConfigError where a directory belongs to another node or cluster: whoever mounted it did not mean us.
    """
    known = {path: read_meta_properties(files, f"{path}/{META_PROPERTIES}") for path in directories}
    found = {path: one for path, one in known.items() if one is not None}
    clusters = sorted({one.cluster_id for one in found.values()})
    if len(clusters) > 1:
        raise ConfigError(f"log.dirs belong to several clusters: {', '.join(clusters)}; expected one")
    if told is not None and clusters and clusters[0] != told:
        raise ConfigError(f"log.dirs belong to the cluster {clusters[0]}, cluster.id is {told}")
    for path, one in found.items():
        if one.node_id != node_id:
            raise ConfigError(f"log directory {path} belongs to node {one.node_id}, node.id is {node_id}")
    cluster_id = clusters[0] if clusters else told or uuid_text(random.uuid())
    ids: dict[str, Uuid] = {}
    for path in known:
        mine = found.get(path)
        if mine is None:
            mine = MetaProperties(cluster_id, node_id, random.uuid())
            replace_file(files, f"{path}/{META_PROPERTIES}", mine.content())
        ids[path] = mine.directory_id
    return cluster_id, ids
