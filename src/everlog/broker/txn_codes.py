"""What the coordinator of transactions answers with, in codes that the client's version knows."""

from everlog.broker.coordinator_errors import coordinator_error
from everlog.model.errors import ErrorCode, Refused, StorageError


def answer_code(refusal: Refused | StorageError, *, knows_fenced: bool) -> ErrorCode:
    """The code for a refusal; `knows_fenced` is whether the client's version has PRODUCER_FENCED."""
    code = coordinator_error(refusal)
    if code is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
