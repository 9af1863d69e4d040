"""ImageKeeper: the cluster as the committed part of the metadata log has it, on every node."""

from collections.abc import Callable, Iterable
from typing import Protocol

from everlog.controller.replay import replay
from everlog.metadata.delta import Changes
from everlog.metadata.difference import changes_between
from everlog.metadata.image import EMPTY_IMAGE, ClusterImage
from everlog.model.ids import Offset
from everlog.records.batch import BatchView

Listener = Callable[[ClusterImage, Changes], None]


class BatchSource(Protocol):
    """Where committed records are read."""

    def batches(self, start: Offset, end: Offset) -> Iterable[BatchView]:
        """The batches of the metadata log from `start` to `end`, both where a batch begins or ends."""
        ...


class ImageKeeper:
    """Applies what is committed, in order, and tells who listens; what is not committed nobody sees."""

    def __init__(self, source: BatchSource) -> None:
        self._source = source
        self._image = EMPTY_IMAGE
        self._listeners: list[Listener] = []

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is committed, as far as this node knows."""
        return self._image

    def subscribe(self, listener: Listener) -> None:
        """Tell `listener` of each new image and of what it changed; those told first came first."""
        self._listeners.append(listener)

    def committed(self, high_watermark: Offset) -> None:
        """All below is committed: apply it. CorruptDataError where it cannot follow what came before."""
        if high_watermark <= self._image.end_offset:
            return
        batches = self._source.batches(self._image.end_offset, high_watermark)
        self._publish(*replay(batches, self._image))

    def load(self, image: ClusterImage) -> None:
        """Take over an image from a snapshot, which is newer than all that was applied."""
        assert image.end_offset >= self._image.end_offset, (image.end_offset, self._image.end_offset)
        self._publish(image, changes_between(self._image, image))

    def _publish(self, image: ClusterImage, changes: Changes) -> None:
        self._image = image
        for listener in list(self._listeners):
            listener(image, changes)
