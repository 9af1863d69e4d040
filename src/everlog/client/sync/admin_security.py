"""Access control, users and quotas: what an Admin asks about them (blocking)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from everlog.client.sync.admin_desk import AdminDesk

if TYPE_CHECKING:
    from everlog.client.core.admin.acls import Acl, AclFilter
    from everlog.client.core.admin.quotas import QuotaEntity
    from everlog.client.core.admin.scram_users import ScramCredential, ScramDeletion, ScramUpsert


class SecurityCalls(AdminDesk):
    """Calls about who may do what, and how much of it."""

    def create_acls(self, acls: Iterable[Acl]) -> None:
        """Add rules; one that is there already is no error."""
        return self._run(self._admin.create_acls(acls))

    def describe_acls(self, wanted: AclFilter | None = None) -> list[Acl]:
        """The rules that match, or all of them."""
        return self._run(self._admin.describe_acls(wanted))

    def delete_acls(self, filters: Iterable[AclFilter]) -> dict[AclFilter, list[Acl]]:
        """Delete all rules that match any of the filters; returns what each has deleted."""
        return self._run(self._admin.delete_acls(filters))

    def describe_scram_users(
        self, users: Iterable[str] | None = None
    ) -> dict[str, Sequence[ScramCredential]]:
        """The mechanisms and iterations of users' credentials, of some users or of all; never the secrets."""
        return self._run(self._admin.describe_scram_users(users))

    def alter_scram_users(self, changes: Iterable[ScramUpsert | ScramDeletion]) -> None:
        """Set and delete credentials of users. Passwords are salted and hashed here and do not leave."""
        return self._run(self._admin.alter_scram_users(changes))

    def describe_client_quotas(
        self, wanted: QuotaEntity | None = None, *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas by entity and key; of all, or of those that match in each part that is given.

        A part may be `ANY` or `DEFAULT`. With `strict` entities with other parts as well are left out.
        """
        return self._run(self._admin.describe_client_quotas(wanted, strict=strict))

    def alter_client_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Set quotas of entities by key, such as `producer_byte_rate`; None takes one away."""
        return self._run(self._admin.alter_client_quotas(quotas, validate_only=validate_only))
