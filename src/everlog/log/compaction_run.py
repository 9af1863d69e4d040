"""One round of compaction, step by step: what blocks is handed out as jobs, swaps are done on the loop."""

from collections.abc import Callable, Generator, Iterator

from everlog.log.compaction import CleanPlan, Source
from everlog.log.compaction_keys import KeyScan
from everlog.log.compaction_rewrite import Rewrite, grouped
from everlog.log.compaction_sieve import Sieve
from everlog.log.compaction_swap import Swap
from everlog.log.partition import PartitionLog
from everlog.log.segment import Segment
from everlog.model.errors import CorruptDataError, StorageError
from everlog.model.ids import Instant, Offset
from everlog.ports.clock import Clock

Job = Callable[[], int | CorruptDataError]
"""To be run beside the loop: returns the bytes read and written, or why the log cannot be compacted."""


class LogChangedError(Exception):
    """The log was cut, deleted or has let go of segments while a round worked on it."""


class Cleaning:
    """One round over one log.

    `jobs` is driven on the loop: each job that it yields is run beside the loop, and the generator resumed
    once that has ended, with `send` of its result or `throw` of its OSError. It ends when the round is
    over, or raises why it could not be: OSError, CorruptDataError or LogChangedError. Groups that were
    swapped before stay so: each is right by itself.
    """

    def __init__(self, log: PartitionLog, plan: CleanPlan, clock: Clock, step_bytes: int) -> None:
        self.log = log
        self.plan = plan
        self._clock = clock
        self.step_bytes = step_bytes
        """How many bytes a job moves before it lets others have a turn."""
        self.end_offset: Offset = plan.start_offset
        """Where the clean part ends after the round."""
        self.bytes_before = 0
        self.bytes_after = 0

    def jobs(self) -> Generator[Job, int | CorruptDataError, None]:
        """Do the round."""
        found = KeyScan(self.plan)
        yield from self._steps(found.run())
        sieve = Sieve(self.plan, found)
        sources = [source for source in self.plan.sources if source.base_offset < found.end_offset]
        for group in grouped(sources, self.plan.settings):
            self.bytes_before += sum(source.size for source in group)
            if any(source.size for source in group):
                yield from self._clean(group, sieve)
        self.end_offset = found.end_offset

    def _clean(self, group: tuple[Source, ...], sieve: Sieve) -> Generator[Job, int | CorruptDataError, None]:
        rewrite = Rewrite(self.plan, group, sieve)
        try:
            yield from self._steps(rewrite.run())
            self.bytes_after += rewrite.size
            if rewrite.changed:
                yield from self._swap(group, rewrite.size)
            else:
                yield rewrite.discard
        except (OSError, CorruptDataError, LogChangedError):
            yield rewrite.discard
            raise

    def _swap(self, group: tuple[Source, ...], size: int) -> Generator[Job, int | CorruptDataError, None]:
        self._check_log()
        log, plan = self.log, self.plan
        old = [source.segment for source in group]
        new = Segment(plan.files, plan.path, old[0].base_offset, size, plan.settings.index_interval_bytes)
        new.indexes.configure(log.settings.index_interval_bytes, log.settings.segment_index_bytes)
        new.has_no_aborted()
        new.end_offset = old[-1].end_offset
        try:
            if not log.swaps.begin(Swap(old, new)):
                raise LogChangedError(f"{log.partition} has let go of segments")
            yield log.swaps.sync_names
            if not log.swaps.replace(self._due()):
                raise LogChangedError(f"{log.partition} was cut or has let go of segments")
            yield log.swaps.sync_names
            log.swaps.finish(self._due())
        except OSError as error:
            self._swap_failed(error)
            raise

    def _swap_failed(self, error: OSError) -> None:
        """Bring a swap that the disk refused back to where it began, or let the log take no more appends."""
        try:
            self.log.swaps.settle(self._due())
        except OSError:
            # Half of the names are changed, and the next start sets them right. Reads go on.
            if self.log.failure is None:
                self.log.failure = StorageError(f"{self.log.partition} cannot swap segments: {error}")

    def _due(self) -> Instant:
        return Instant(self._clock.now() + self.log.settings.file_delete_delay_ms)

    def _check_log(self) -> None:
        if self.log.generation != self.plan.generation:
            raise LogChangedError(f"{self.log.partition} was cut")
        if self.log.failure is not None:
            raise LogChangedError(str(self.log.failure))

    def _steps(self, work: Iterator[int]) -> Generator[Job, int | CorruptDataError, None]:
        """Hand out a pass in jobs of `step_bytes` each."""
        over = False

        def step() -> int | CorruptDataError:
            nonlocal over
            moved = 0
            try:
                for share in work:
                    moved += share
                    if moved >= self.step_bytes:
                        return moved
            except CorruptDataError as error:
                return error
            over = True
            return moved

        while not over:
            try:
                result = yield step
            finally:
                # A log that was cut looks damaged to who reads it, or its files are gone.
                self._check_log()
            if isinstance(result, CorruptDataError):
                raise result
