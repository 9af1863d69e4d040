"""Access control lists: who may do what with which resource, from which host."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from everlog.client.core.admin.authorized import AclOperation
from everlog.client.core.admin.outcomes import outcome
from everlog.client.core.errors import refusal
from everlog.model.errors import ErrorCode, Refused
from everlog.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from everlog.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from everlog.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


class AclResourceType(IntEnum):
    """What access is controlled to, by its number on the wire; ANY only in filters."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPatternType(IntEnum):
    """How a rule's name is compared, by its number on the wire; ANY and MATCH only in filters."""

    ANY = 1
    MATCH = 2
    """Rules that bear on the name in the filter: literal, by prefix and `*`."""
    LITERAL = 3
    PREFIXED = 4


class AclPermission(IntEnum):
    """What a rule does, by its number on the wire; ANY only in filters."""

    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True)
class Acl:
    """One rule. `principal` is like `User:alice`; the name and the host `*` stand for all.

    >>> Acl(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)
    """

    resource_type: AclResourceType
    name: str
    principal: str
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    host: str = "*"
    pattern_type: AclPatternType = AclPatternType.LITERAL

    def __str__(self) -> str:
        verb = self.permission.name.lower()
        prefixed = " by prefix" if self.pattern_type is AclPatternType.PREFIXED else ""
        thing = f"{self.resource_type.name.lower()} {self.name!r}{prefixed}"
        return f"rule to {verb} {self.principal} from {self.host} {self.operation.name} of {thing}"


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Which rules are meant; what is left out does not matter."""

    resource_type: AclResourceType = AclResourceType.ANY
    name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY
    host: str | None = None
    pattern_type: AclPatternType = AclPatternType.ANY


def create_acls_request(acls: Iterable[Acl]) -> CreateAclsRequest:
    """Ask for rules to be added."""
    creations = [
        AclCreation(
            resource_type=acl.resource_type,
            resource_name=acl.name,
            resource_pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in acls
    ]
    return CreateAclsRequest(creations=creations)


def read_acls_created(response: CreateAclsResponse, asked: Sequence[Acl]) -> dict[Acl, Refused | None]:
    """What became of each rule; the answer names them by their order only."""
    return {
        acl: outcome(None, result.error_code, result.error_message, str(acl))
        for acl, result in zip(asked, response.results, strict=False)
    }


def describe_acls_request(wanted: AclFilter) -> DescribeAclsRequest:
    """Ask for the rules that match."""
    return DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


def read_acls(response: DescribeAclsResponse) -> list[Acl]:
    """The rules that match; Refused if they cannot be told, as where no authorizer is configured."""
    if response.error_code != ErrorCode.NONE:
        raise refusal(response.error_code, response.error_message, "access control lists")
    return [
        Acl(
            AclResourceType(resource.resource_type),
            resource.resource_name,
            entry.principal,
            AclOperation(entry.operation),
            AclPermission(entry.permission_type),
            entry.host,
            AclPatternType(resource.pattern_type),
        )
        for resource in response.resources
        for entry in resource.acls
    ]


def delete_acls_request(filters: Iterable[AclFilter]) -> DeleteAclsRequest:
    """Ask for all rules that match any of the filters to be deleted."""
    wanted = [
        DeleteAclsFilter(
            resource_type_filter=each.resource_type,
            resource_name_filter=each.name,
            pattern_type_filter=each.pattern_type,
            principal_filter=each.principal,
            host_filter=each.host,
            operation=each.operation,
            permission_type=each.permission,
        )
        for each in filters
    ]
    return DeleteAclsRequest(filters=wanted)


def read_acls_deleted(
    response: DeleteAclsResponse, asked: Sequence[AclFilter]
) -> dict[AclFilter, list[Acl] | Refused]:
    """The rules that each filter has deleted; the answer names filters by their order only."""
    read: dict[AclFilter, list[Acl] | Refused] = {}
    for wanted, result in zip(asked, response.filter_results, strict=False):
        deleted: list[Acl] = []
        problem: Refused | None = None
        for entry in result.matching_acls:
            acl = Acl(
                AclResourceType(entry.resource_type),
                entry.resource_name,
                entry.principal,
                AclOperation(entry.operation),
                AclPermission(entry.permission_type),
                entry.host,
                AclPatternType(entry.pattern_type),
            )
            if entry.error_code != ErrorCode.NONE:
                problem = refusal(entry.error_code, entry.error_message, str(acl))
            else:
                deleted.append(acl)
        done = outcome(deleted, result.error_code, result.error_message, f"deletion of {wanted}")
        read[wanted] = done if problem is None else problem
    return read
