"""Access control lists, set and found by Admin on Apache Kafka with its authorizer."""

import time
from collections.abc import Generator

import pytest

import everlog
from everlog.admin import (
    Acl,
    AclFilter,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    ItemsRefused,
    ScramDeletion,
    ScramMechanism,
    ScramUpsert,
)
from tests import apache_kafka
from tests.client.secured_kafka import SecuredKafka
from tests.conformance.target import SETTINGS, ApacheKafka

pytestmark = pytest.mark.xdist_group("secured")  # One broker of Apache Kafka with TLS does for all.

AUTHORIZED = {
    **SETTINGS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
READ = Acl(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)
DENIED = Acl(
    AclResourceType.GROUP,
    "bill",
    "User:bob",
    AclOperation.ALL,
    AclPermission.DENY,
    host="10.0.0.7",
    pattern_type=AclPatternType.PREFIXED,
)


@pytest.fixture(scope="module")
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[everlog.Admin]:
    """An Admin of a broker of Apache Kafka that controls access."""
    if request.config.getoption("--broker") != "apache":
        pytest.skip("Everlog has no authorizer: --broker apache")
    if isinstance(jars := apache_kafka.classpath(), apache_kafka.Unavailable):
        pytest.skip(jars.reason)
    target = ApacheKafka(tmp_path_factory.mktemp("guarded"), AUTHORIZED)
    target.start()
    with everlog.Admin(target.bootstrap) as admin:
        yield admin
    target.stop()


def settled(admin: everlog.Admin, wanted: AclFilter, expected: set[Acl]) -> None:
    """Wait for the broker to hear of what its controller has agreed to."""
    deadline = time.monotonic() + 60
    while set(admin.describe_acls(wanted)) != expected:
        assert time.monotonic() < deadline, admin.describe_acls(wanted)


def test_rules_are_added_found_and_deleted(guarded: everlog.Admin) -> None:
    guarded.create_acls([READ, DENIED])

    settled(guarded, AclFilter(), {READ, DENIED})
    settled(guarded, AclFilter(principal="User:alice"), {READ})
    settled(guarded, AclFilter(permission=AclPermission.DENY), {DENIED})
    bearing_on = AclFilter(AclResourceType.GROUP, "billing", pattern_type=AclPatternType.MATCH)
    settled(guarded, bearing_on, {DENIED})
    nothing, alices = AclFilter(principal="User:eve"), AclFilter(principal="User:alice")
    assert guarded.delete_acls([nothing, alices]) == {nothing: [], alices: [READ]}
    settled(guarded, AclFilter(), {DENIED})
    guarded.delete_acls([AclFilter()])
    settled(guarded, AclFilter(), set())


def test_a_rule_that_cannot_be_is_refused_by_name(guarded: everlog.Admin) -> None:
    wrong = Acl(AclResourceType.CLUSTER, "not-the-cluster", "User:alice", AclOperation.READ)

    with pytest.raises(ItemsRefused) as refused:
        guarded.create_acls([wrong, READ])

    assert list(refused.value.errors) == [wrong]
    assert list(refused.value.done) == [READ]
    assert "not-the-cluster" in str(refused.value)
    guarded.delete_acls([AclFilter()])


def test_what_the_caller_may_do_is_told_if_asked_for(guarded: everlog.Admin) -> None:
    guarded.create_topic("allowed")

    allowed = guarded.describe_topics(["allowed"], authorized_operations=True)["allowed"]

    assert allowed.authorized_operations is not None
    assert {AclOperation.READ, AclOperation.WRITE} <= allowed.authorized_operations
    cluster = guarded.describe_cluster(authorized_operations=True)
    assert cluster.authorized_operations is not None
    assert AclOperation.CREATE in cluster.authorized_operations
    assert guarded.describe_cluster().authorized_operations is None


def test_without_an_authorizer_that_is_said(bootstrap: str, is_apache: bool) -> None:
    if not is_apache:
        pytest.skip("Everlog does not serve it")
    with everlog.Admin(bootstrap) as admin, pytest.raises(everlog.Refused, match="SECURITY_DISABLED"):
        admin.describe_acls()


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_user_made_here_logs_in_with_its_password_until_it_is_deleted(
    secured_kafka: SecuredKafka, mechanism: ScramMechanism
) -> None:
    name, password = "carol", "it's, a secret="
    login = secured_kafka.sasl(mechanism.name.replace("_", "-"), sasl_username=name, sasl_password=password)

    def can_log_in() -> bool:
        with everlog.Admin(**login) as theirs:
            try:
                return bool(theirs.describe_cluster().brokers)
            except everlog.AuthenticationFailed:
                return False

    with everlog.Admin(secured_kafka.address("PLAINTEXT")) as admin:
        admin.alter_scram_users([ScramUpsert(name, password, mechanism)])
        deadline = time.monotonic() + 60
        while not can_log_in():
            assert time.monotonic() < deadline
        admin.alter_scram_users([ScramDeletion(name, mechanism)])
        while can_log_in():
            assert time.monotonic() < deadline + 60
