"""Users of SASL/SCRAM: their credentials are made here, so that no password goes over the wire (KIP-554)."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from everlog.client.core.admin.outcomes import outcome
from everlog.client.core.errors import refusal
from everlog.model.errors import ErrorCode, Refused
from everlog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from everlog.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

DEFAULT_ITERATIONS = 4096
"""What Kafka's own tool takes, and the least that brokers take; they take 16384 at most."""

SALT_BYTES = 32


class ScramMechanism(IntEnum):
    """A hash function of SCRAM, by its number on the wire."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def hash_name(self) -> str:
        """The hash function, as `hashlib` names it."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


@dataclass(frozen=True, slots=True)
class ScramUpsert:
    """A user's password, to be set for one mechanism. Without a salt a random one is made."""

    user: str
    password: str = field(repr=False)
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512
    iterations: int = DEFAULT_ITERATIONS
    salt: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """A user's credential of one mechanism, to be deleted."""

    user: str
    mechanism: ScramMechanism


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a broker tells of a credential."""

    mechanism: ScramMechanism
    iterations: int


def once_a_user(
    changes: Iterable[ScramUpsert | ScramDeletion],
) -> list[dict[str, ScramUpsert | ScramDeletion]]:
    """Changes in lots, in each of which no user has two: brokers take but one of each in a request."""
    lots: list[dict[str, ScramUpsert | ScramDeletion]] = []
    for change in changes:
        lot = next((each for each in lots if change.user not in each), None)
        if lot is None:
            lots.append({change.user: change})
        else:
            lot[change.user] = change
    return lots


def salted_password(password: str, mechanism: ScramMechanism, salt: bytes, iterations: int) -> bytes:
    """What brokers keep in place of a password: Hi() of RFC 5802, which is PBKDF2."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def alter_scram_request(
    changes: Iterable[ScramUpsert | ScramDeletion], salts: Mapping[ScramUpsert, bytes]
) -> AlterUserScramCredentialsRequest:
    """Ask for credentials to be set and deleted; `salts` has one for each upsert that brings none."""
    upserts: list[ScramCredentialUpsertion] = []
    deletions: list[ScramCredentialDeletion] = []
    for change in changes:
        if isinstance(change, ScramDeletion):
            deletions.append(ScramCredentialDeletion(name=change.user, mechanism=change.mechanism))
            continue
        salt = salts[change] if change.salt is None else change.salt
        upserts.append(
            ScramCredentialUpsertion(
                name=change.user,
                mechanism=change.mechanism,
                iterations=change.iterations,
                salt=salt,
                salted_password=salted_password(change.password, change.mechanism, salt, change.iterations),
            )
        )
    return AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upserts)


def read_scram_altered(response: AlterUserScramCredentialsResponse) -> dict[str, Refused | None]:
    """What became of each user."""
    return {
        result.user: outcome(None, result.error_code, result.error_message, f"user {result.user!r}")
        for result in response.results
    }


def describe_scram_request(users: Iterable[str] | None) -> DescribeUserScramCredentialsRequest:
    """Ask for the credentials of some users, or with None of all."""
    return DescribeUserScramCredentialsRequest(
        users=None if users is None else [UserName(name=user) for user in users]
    )


def read_scram_users(
    response: DescribeUserScramCredentialsResponse,
) -> dict[str, Sequence[ScramCredential] | Refused]:
    """The credentials of each user; Refused if none can be told."""
    if response.error_code != ErrorCode.NONE:
        raise refusal(response.error_code, response.error_message, "SCRAM users")
    found: dict[str, Sequence[ScramCredential] | Refused] = {}
    for result in response.results:
        credentials = [
            ScramCredential(ScramMechanism(info.mechanism), info.iterations)
            for info in result.credential_infos
        ]
        found[result.user] = outcome(
            credentials, result.error_code, result.error_message, f"user {result.user!r}"
        )
    return found
