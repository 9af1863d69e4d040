"""Access control, users and quotas: what an Admin asks about them (asyncio)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from everlog.client.aio.admin_desk import AdminDesk
from everlog.client.core.admin.outcomes import ItemsRefused, all_done
from everlog.model.errors import Refused

if TYPE_CHECKING:
    from everlog.client.core.admin.acls import Acl, AclFilter
    from everlog.client.core.admin.quotas import QuotaEntity
    from everlog.client.core.admin.scram_users import ScramCredential, ScramDeletion, ScramUpsert


class SecurityCalls(AdminDesk):
    """Calls about who may do what, and how much of it."""

    async def create_acls(self, acls: Iterable[Acl]) -> None:
        """Add rules; one that is there already is no error."""
        from everlog.client.core.admin.acls import create_acls_request, read_acls_created
        from everlog.wire.messages.create_acls import CreateAclsResponse

        async def ask(left: Sequence[Acl], limit: float) -> Mapping[Acl, Refused | None]:
            answer = await self._link.call(create_acls_request(left), CreateAclsResponse, limit)
            return read_acls_created(answer, left)

        await self._each(acls, ask)

    async def describe_acls(self, wanted: AclFilter | None = None) -> list[Acl]:
        """The rules that match, or all of them."""
        from everlog.client.core.admin.acls import AclFilter, describe_acls_request, read_acls
        from everlog.wire.messages.describe_acls import DescribeAclsResponse

        request = describe_acls_request(wanted or AclFilter())
        return await self._ask(request, DescribeAclsResponse, read_acls)

    async def delete_acls(self, filters: Iterable[AclFilter]) -> dict[AclFilter, list[Acl]]:
        """Delete all rules that match any of the filters; returns what each has deleted."""
        from everlog.client.core.admin.acls import delete_acls_request, read_acls_deleted
        from everlog.wire.messages.delete_acls import DeleteAclsResponse

        async def ask(left: Sequence[AclFilter], limit: float) -> Mapping[AclFilter, list[Acl] | Refused]:
            answer = await self._link.call(delete_acls_request(left), DeleteAclsResponse, limit)
            return read_acls_deleted(answer, left)

        return await self._each(filters, ask)

    async def describe_scram_users(
        self, users: Iterable[str] | None = None
    ) -> dict[str, Sequence[ScramCredential]]:
        """The mechanisms and iterations of users' credentials, of some users or of all; never the secrets."""
        from everlog.client.core.admin.scram_users import describe_scram_request, read_scram_users
        from everlog.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsResponse

        if users is None:
            found = await self._ask(
                describe_scram_request(None), DescribeUserScramCredentialsResponse, read_scram_users
            )
            return all_done(dict(sorted(found.items())))
        return await self._each_at_any(
            users, describe_scram_request, DescribeUserScramCredentialsResponse, read_scram_users
        )

    async def alter_scram_users(self, changes: Iterable[ScramUpsert | ScramDeletion]) -> None:
        """Set and delete credentials of users. Passwords are salted and hashed here and do not leave."""
        from everlog.client.core.admin.scram_users import SALT_BYTES, ScramUpsert, once_a_user

        wanted = list(changes)
        salts = {
            change: os.urandom(SALT_BYTES)
            for change in wanted
            if isinstance(change, ScramUpsert) and change.salt is None
        }
        outcomes: dict[str, Refused | None] = {change.user: None for change in wanted}
        for lot in once_a_user(wanted):
            try:
                await self._alter_scram_lot(lot, salts)
            except ItemsRefused as error:
                outcomes.update(error.errors)
        all_done(outcomes)

    async def _alter_scram_lot(
        self, lot: Mapping[str, ScramUpsert | ScramDeletion], salts: Mapping[ScramUpsert, bytes]
    ) -> None:
        from everlog.client.core.admin.scram_users import alter_scram_request, read_scram_altered
        from everlog.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsResponse

        await self._each_at_any(
            lot,
            lambda left: alter_scram_request([lot[user] for user in left], salts),
            AlterUserScramCredentialsResponse,
            read_scram_altered,
        )

    async def describe_client_quotas(
        self, wanted: QuotaEntity | None = None, *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas by entity and key; of all, or of those that match in each part that is given.

        A part may be `ANY` or `DEFAULT`. With `strict` entities with other parts as well are left out.
        """
        from everlog.client.core.admin.quotas import QuotaEntity, describe_quotas_request, read_quotas
        from everlog.wire.messages.describe_client_quotas import DescribeClientQuotasResponse

        request = describe_quotas_request(wanted or QuotaEntity(), strict=strict)
        return await self._ask(request, DescribeClientQuotasResponse, read_quotas)

    async def alter_client_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Set quotas of entities by key, such as `producer_byte_rate`; None takes one away."""
        from everlog.client.core.admin.quotas import alter_quotas_request, read_quotas_altered
        from everlog.wire.messages.alter_client_quotas import AlterClientQuotasResponse

        await self._each_at_any(
            quotas,
            lambda left: alter_quotas_request(
                {entity: quotas[entity] for entity in left}, validate_only=validate_only
            ),
            AlterClientQuotasResponse,
            read_quotas_altered,
        )
