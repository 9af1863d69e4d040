"""Which version of each API to speak with one broker, from its answer to ApiVersions."""

from collections.abc import Iterable, Mapping
from struct import Struct

from everlog.client.core.errors import Unsupported, error_code
from everlog.model.errors import ErrorCode
from everlog.wire.apis import APIS, ApiKey
from everlog.wire.messages.api_versions import ApiVersionsResponse

FIRST_TRY_VERSION = 4
"""What we open with: every broker of the 3.x and 4.x lines serves it, or answers with what it serves."""

_CORRELATION_AND_ERROR = Struct(">ih")


def version_refused(frame: memoryview) -> bool:
    """Whether an answer to ApiVersions says UNSUPPORTED_VERSION; its body then has format 0 (KIP-511)."""
    if len(frame) < _CORRELATION_AND_ERROR.size:
        return False
    code: int = _CORRELATION_AND_ERROR.unpack_from(frame)[1]
    return code == ErrorCode.UNSUPPORTED_VERSION


class BrokerVersions:
    """The version ranges that one broker serves, matched with ours."""

    def __init__(
        self,
        ranges: Mapping[int, tuple[int, int]],
        broker: str,
        features: Mapping[str, int] | None = None,
    ) -> None:
        self._ranges = dict(ranges)
        self._broker = broker
        self._picked: dict[tuple[ApiKey, int | None], int] = {}
        self.features: Mapping[str, int] = features or {}
        """The levels at which the cluster works, such as that of `transaction.version`."""

    @classmethod
    def from_response(cls, response: ApiVersionsResponse, broker: str) -> "BrokerVersions":
        """Read a broker's answer; Unsupported if it is an error. `broker` names it in messages."""
        if response.error_code != ErrorCode.NONE:
            raise Unsupported(f"broker {broker} refused ApiVersions: {error_code(response.error_code).name}")
        ranges = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}
        features = {entry.name: entry.max_version_level for entry in response.finalized_features}
        return cls(ranges, broker, features if response.finalized_features_epoch >= 0 else {})

    def serves(self, api: ApiKey) -> bool:
        """Whether the broker and we have a version of an API in common."""
        return self._common(api) is not None

    def pick(self, api: ApiKey, at_most: int | None = None) -> int:
        """Return the newest version that both speak, up to `at_most`; Unsupported if there is none.

        A version that is not stable yet is picked only where `at_most` asks for it.
        """
        picked = self._picked.get((api, at_most))
        if picked is None:
            picked = self._picked[api, at_most] = self._pick(api, at_most)
        return picked

    def _pick(self, api: ApiKey, at_most: int | None) -> int:
        common = self._common(api, at_most)
        if common is None or (at_most is not None and at_most < common[0]):
            theirs = self._ranges.get(api)
            found = "does not serve it" if theirs is None else f"serves versions {theirs[0]} to {theirs[1]}"
            ours = APIS[api]
            raise Unsupported(
                f"API {ours.name} of broker {self._broker}: the broker {found}, expected one of "
                f"{ours.min_version} to {ours.advertised_max if at_most is None else at_most}"
            )
        return common[1] if at_most is None else min(common[1], at_most)

    def items(self) -> Iterable[tuple[int, tuple[int, int]]]:
        """Every API the broker serves, with its range, by key."""
        return sorted(self._ranges.items())

    def _common(self, api: ApiKey, at_most: int | None = None) -> tuple[int, int] | None:
        theirs = self._ranges.get(api)
        if theirs is None:
            return None
        ours = APIS[api]
        newest = ours.max_version if at_most == ours.max_version else ours.advertised_max
        low, high = max(theirs[0], ours.min_version), min(theirs[1], newest)
        return (low, high) if low <= high else None
