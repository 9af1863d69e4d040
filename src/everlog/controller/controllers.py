"""Controllers: what each says of itself, so that others know where it listens (KIP-919)."""

from collections.abc import Mapping

from everlog.controller.decisions import Decision, Standing
from everlog.metadata.delta import registered_controller
from everlog.metadata.image import Endpoint
from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Uuid
from everlog.wire.messages.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)


@dataclass(frozen=True, slots=True)
class RegisterController:
    """A controller's process says where it listens and what it supports; the newest counts."""

    controller: int
    incarnation: Uuid
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, tuple[int, int]]

    def decide(self, standing: Standing) -> Decision[None]:
        """Take note of it; Refused if it cannot work at the levels that the cluster has."""
        for name, level in standing.image.features.items():
            lowest, highest = self.features.get(name, (0, 0))
            if not lowest <= level <= highest:
                raise Refused(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"the cluster is at level {level} of {name}, expected controller {self.controller} to "
                    f"support it, not {lowest} to {highest}",
                )
        record = RegisterControllerRecord(
            controller_id=self.controller,
            incarnation_id=self.incarnation,
            end_points=[
                ControllerEndpoint(
                    name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol
                )
                for one in self.endpoints
            ],
            features=[
                ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in self.features.items()
            ],
        )
        known = standing.image.controllers.get(self.controller)
        return Decision(() if registered_controller(record) == known else (record,), None)
