"""Configs: set, delete, append, subtract, replace; each resource whole or not at all."""

import pytest

from everlog.controller.configs import ChangeConfigs, ConfigChange, Operation, ReplaceConfigs
from everlog.controller.decisions import Refusal, Standing
from everlog.metadata.delta import apply
from everlog.metadata.image import ALL_BROKERS, ConfigResource, ResourceType, topic_resource
from everlog.model.errors import ErrorCode, Refused
from everlog.sim.chance import SimRandom
from tests.unit.controller.builders import some_settings
from tests.unit.controller.clusters import Cluster, check_invariants, shape
from tests.unit.controller.test_topics import a_standing

ORDERS = topic_resource("orders")
BROKER_1 = ConfigResource(ResourceType.BROKER, "1")


def changed(
    standing: Standing, resource: ConfigResource, *changes: tuple[str, int, str | None]
) -> tuple[Refusal | None, Standing]:
    """Decide on changes of one resource and apply them."""
    command = ChangeConfigs(((resource, tuple(ConfigChange(*change) for change in changes)),))
    decision = command.decide(standing)
    (outcome,) = decision.reply
    image = apply(standing.image, decision.records, 0)
    return outcome, Standing(image, standing.settings, SimRandom(1))


def after(resource: ConfigResource, *changes: tuple[str, int, str | None]) -> dict[str, str]:
    outcome, standing = changed(a_standing("orders"), resource, *changes)
    assert outcome is None, outcome
    return dict(standing.image.config(resource))


def refused(resource: ConfigResource, *changes: tuple[str, int, str | None]) -> tuple[ErrorCode, str]:
    standing = a_standing("orders")
    outcome, then = changed(standing, resource, *changes)
    assert outcome is not None
    assert then.image.configs == standing.image.configs
    return outcome.code, outcome.message


SET, DELETE, APPEND, SUBTRACT = Operation.SET, Operation.DELETE, Operation.APPEND, Operation.SUBTRACT


def test_a_config_is_set_and_deleted() -> None:
    _, standing = changed(a_standing("orders"), ORDERS, ("retention.ms", SET, "5"), ("segment.ms", SET, "6"))
    assert standing.image.config(ORDERS) == {"retention.ms": "5", "segment.ms": "6"}

    _, standing = changed(standing, ORDERS, ("retention.ms", DELETE, None))
    assert standing.image.config(ORDERS) == {"segment.ms": "6"}


def test_append_adds_to_the_list_that_is_in_force_even_if_it_is_the_default() -> None:
    assert after(ORDERS, ("cleanup.policy", APPEND, "compact")) == {"cleanup.policy": "delete,compact"}
    assert after(ORDERS, ("cleanup.policy", APPEND, "delete")) == {"cleanup.policy": "delete"}


def test_subtract_takes_from_the_list() -> None:
    assert after(ORDERS, ("cleanup.policy", SUBTRACT, "delete")) == {"cleanup.policy": ""}
    assert after(ORDERS, ("cleanup.policy", SUBTRACT, "compact")) == {"cleanup.policy": "delete"}


def test_setting_what_is_set_writes_nothing() -> None:
    _, standing = changed(a_standing("orders"), ORDERS, ("retention.ms", SET, "5"))
    change = ConfigChange("retention.ms", SET, "5")

    assert ChangeConfigs(((ORDERS, (change,)),)).decide(standing).records == ()


@pytest.mark.parametrize(
    ("resource", "change", "code", "says"),
    [
        (ORDERS, ("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG, "is 'x'"),
        (ORDERS, ("no.such", SET, "1"), ErrorCode.INVALID_CONFIG, "no.such"),
        (ORDERS, ("preallocate", SET, "true"), ErrorCode.INVALID_CONFIG, "preallocate"),
        (ORDERS, ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST, "no value"),
        (ORDERS, ("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG, "not a list"),
        (ORDERS, ("no.such", APPEND, "1"), ErrorCode.INVALID_CONFIG, "not a list"),
        (ORDERS, ("cleanup.policy", APPEND, "shred"), ErrorCode.INVALID_CONFIG, "shred"),
        (ORDERS, ("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST, "operation 9"),
        (topic_resource("x"), ("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "'x'"),
        (
            BROKER_1,
            ("num.partitions", SET, "3"),
            ErrorCode.INVALID_REQUEST,
            "cannot change while a broker runs",
        ),
        (BROKER_1, ("no.such", SET, "3"), ErrorCode.INVALID_REQUEST, "no.such"),
        (ALL_BROKERS, ("log.retention.ms", SET, "x"), ErrorCode.INVALID_REQUEST, "is 'x'"),
        (ConfigResource(4, "01"), ("log.retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST, "'01'"),
        (ConfigResource(4, "x"), ("log.retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST, "'x'"),
        (ConfigResource(4, "7"), ("log.retention.ms", SET, "1"), ErrorCode.BROKER_ID_NOT_REGISTERED, "7"),
        (ConfigResource(8, "1"), ("root", SET, "DEBUG"), ErrorCode.INVALID_REQUEST, "type 8"),
        (ConfigResource(16, "m"), ("a", SET, "1"), ErrorCode.INVALID_REQUEST, "type 16"),
        (ConfigResource(0, ""), ("a", SET, "1"), ErrorCode.INVALID_REQUEST, "type 0"),
    ],
)
def test_each_reason_not_to_change_a_config_has_its_code(
    resource: ConfigResource, change: tuple[str, int, str | None], code: ErrorCode, says: str
) -> None:
    found, message = refused(resource, change)

    assert found is code
    assert says in message


def test_a_resource_is_changed_whole_or_not_at_all() -> None:
    code, _ = refused(ORDERS, ("retention.ms", SET, "5"), ("segment.ms", SET, "x"))

    assert code is ErrorCode.INVALID_CONFIG


def test_one_bad_resource_does_not_fail_its_neighbours() -> None:
    good = (ORDERS, (ConfigChange("retention.ms", SET, "5"),))
    bad = (topic_resource("x"), (ConfigChange("retention.ms", SET, "5"),))

    decision = ChangeConfigs((bad, good)).decide(a_standing("orders"))

    assert [outcome is None for outcome in decision.reply] == [False, True]
    assert len(decision.records) == 1


def test_a_resource_or_a_config_named_twice_is_refused() -> None:
    change = ConfigChange("retention.ms", SET, "5")

    decision = ChangeConfigs(((ORDERS, (change,)), (ORDERS, (change,)))).decide(a_standing("orders"))

    assert [outcome and outcome.code for outcome in decision.reply] == [ErrorCode.INVALID_REQUEST] * 2
    assert (
        refused(ORDERS, ("retention.ms", SET, "5"), ("retention.ms", SET, "6"))[0]
        is ErrorCode.INVALID_REQUEST
    )


def test_validate_only_checks_and_writes_nothing() -> None:
    good = (ORDERS, (ConfigChange("retention.ms", SET, "5"),))

    decision = ChangeConfigs((good,), validate_only=True).decide(a_standing("orders"))

    assert decision.reply == [None]
    assert decision.records == ()


def test_configs_of_all_brokers_and_of_one_broker_are_kept_apart() -> None:
    _, standing = changed(a_standing(), ALL_BROKERS, ("log.retention.ms", SET, "1"))
    _, standing = changed(standing, BROKER_1, ("log.retention.ms", SET, "2"))

    assert standing.image.config(ALL_BROKERS) == {"log.retention.ms": "1"}
    assert standing.image.config(BROKER_1) == {"log.retention.ms": "2"}


def test_an_override_of_another_version_does_not_block_other_changes_and_can_be_deleted() -> None:
    standing = a_standing("orders")
    (record,) = ChangeConfigs(((ORDERS, (ConfigChange("retention.ms", SET, "1"),)),)).decide(standing).records
    record.name, record.value = "future.setting", "?"  # type: ignore[attr-defined]
    standing = Standing(apply(standing.image, [record], 0), standing.settings, SimRandom(1))

    outcome, then = changed(standing, ORDERS, ("segment.ms", SET, "9"))
    assert outcome is None
    outcome, then = changed(then, ORDERS, ("future.setting", DELETE, None))
    assert outcome is None
    assert then.image.config(ORDERS) == {"segment.ms": "9"}


def test_lags_of_compaction_are_checked_together_with_what_is_set_already() -> None:
    _, standing = changed(a_standing("orders"), ORDERS, ("max.compaction.lag.ms", SET, "5"))

    outcome, _ = changed(standing, ORDERS, ("min.compaction.lag.ms", SET, "6"))

    assert outcome is not None
    assert outcome.code is ErrorCode.INVALID_CONFIG


def test_replacing_drops_what_is_not_given() -> None:
    _, standing = changed(a_standing("orders"), ORDERS, ("retention.ms", SET, "5"), ("segment.ms", SET, "6"))

    decision = ReplaceConfigs(((ORDERS, (("segment.ms", "7"),)),)).decide(standing)

    assert decision.reply == [None]
    assert apply(standing.image, decision.records, 0).config(ORDERS) == {"segment.ms": "7"}


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ((("segment.ms", None),), ErrorCode.INVALID_REQUEST),
        ((("segment.ms", "x"),), ErrorCode.INVALID_CONFIG),
        ((("segment.ms", "1"), ("segment.ms", "1")), ErrorCode.INVALID_REQUEST),
        ((("nothing", "1"),), ErrorCode.INVALID_CONFIG),
    ],
)
def test_each_reason_not_to_replace_configs_has_its_code(
    given: tuple[tuple[str, str | None], ...], code: ErrorCode
) -> None:
    decision = ReplaceConfigs(((ORDERS, given),)).decide(a_standing("orders"))

    (outcome,) = decision.reply
    assert outcome is not None
    assert outcome.code is code
    assert not decision.records


def test_an_append_for_a_broker_builds_on_its_file() -> None:
    standing = a_standing(settings=some_settings(log_cleanup_policy="compact"))

    _, then = changed(standing, ALL_BROKERS, ("log.cleanup.policy", APPEND, "delete"))

    assert then.image.config(ALL_BROKERS) == {"log.cleanup.policy": "compact,delete"}


def test_no_resources_at_all_is_fine() -> None:
    assert ChangeConfigs(()).decide(a_standing()).reply == []
    assert ReplaceConfigs(()).decide(a_standing()).reply == []
    assert ChangeConfigs(((ORDERS, ()),)).decide(a_standing("orders")).reply == [None]


def lowered(cluster: Cluster, resource: ConfigResource, change: ConfigChange) -> None:
    (outcome,) = cluster.do(ChangeConfigs(((resource, (change,)),)))
    assert outcome is None, outcome


def test_nobody_is_eligible_any_more_where_fewer_need_to_be_in_sync() -> None:
    cluster = Cluster(3)
    cluster.create("orders", (1, 2, 3), min_insync_replicas="2")
    cluster.create("payments", (1, 2, 3))
    lowered(cluster, ALL_BROKERS, ConfigChange("min.insync.replicas", SET, "2"))
    for name in ("orders", "payments"):
        cluster.put(name, isr=(1,), eligible_leaders=(2,))

    lowered(cluster, ALL_BROKERS, ConfigChange("min.insync.replicas", DELETE, None))
    assert shape(cluster.partition("payments")) == (1, (1,), ())
    assert shape(cluster.partition("orders")) == (1, (1,), (2,)), "it has a number of its own"

    lowered(cluster, ORDERS, ConfigChange("min.insync.replicas", SET, "1"))
    assert shape(cluster.partition("orders")) == (1, (1,), ())
    check_invariants(cluster)


def test_the_number_in_sync_cannot_differ_between_brokers() -> None:
    code, message = refused(BROKER_1, ("min.insync.replicas", SET, "2"))

    assert code is ErrorCode.INVALID_REQUEST
    assert "elections rest on it" in message


def test_allowing_unclean_leaders_gives_one_to_what_nobody_leads() -> None:
    cluster = Cluster(2)
    cluster.create("orders", (1, 2))
    cluster.put(isr=(1,))
    cluster.fence(1)
    assert cluster.partition().leader == -1

    lowered(cluster, ORDERS, ConfigChange("unclean.leader.election.enable", SET, "true"))

    assert shape(cluster.partition()) == (2, (2,), ())
    assert cluster.partition().recovering


def test_a_command_that_names_too_many_resources_is_refused_as_a_whole() -> None:
    resources = tuple(topic_resource(f"t{number}") for number in range(10_001))

    for command in (
        ChangeConfigs(tuple((one, ()) for one in resources)),
        ReplaceConfigs(tuple((one, ()) for one in resources)),
    ):
        with pytest.raises(Refused, match="names 10001 resources, expected 10000 at most"):
            command.decide(a_standing("orders"))


@pytest.mark.parametrize("name", ["01", "00", "1" * 5_000, "²", "-1"])
def test_a_broker_that_is_not_a_plain_number_is_refused(name: str) -> None:
    """Python reads no number of more than 4,300 digits, and says so with an error of its own."""
    code, message = refused(ConfigResource(ResourceType.BROKER, name), ("num.io.threads", SET, "1"))

    assert code is ErrorCode.INVALID_REQUEST
    assert "expected its number" in message
