"""Configs: set, removed, appended to, one resource after the other, each whole or not at all."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from enum import IntEnum

from everlog.controller.decisions import Decision, Refusal, Standing, check_not_too_many
from everlog.controller.elections import with_enough_in_sync, with_leader_wanted
from everlog.controller.partition_changes import Rules, changed_partitions
from everlog.metadata.delta import apply
from everlog.metadata.image import ALL_BROKERS, NO_LEADER, ConfigResource, ResourceType
from everlog.model.dataclass import dataclass
from everlog.model.errors import ConfigError, ErrorCode, Refused
from everlog.model.ids import BrokerId
from everlog.model.settings import BROKER_SETTINGS, TOPIC_SETTINGS, Kind, Update, check_topic_overrides
from everlog.model.settings.broker import parse_broker_value, unknown_setting
from everlog.model.settings.kinds import split_list
from everlog.model.settings.topic import topic_origins
from everlog.model.settings.topic_table import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE
from everlog.wire.message import Message
from everlog.wire.messages.config_record import ConfigRecord

_INT32_DIGITS = 10


class Operation(IntEnum):
    """What to do with one config, with the number that IncrementalAlterConfigs gives it."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change of one config."""

    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True)
class ChangeConfigs:
    """Change some configs of resources; the reply says None for each resource where it is done, in order."""

    resources: tuple[tuple[ConfigResource, tuple[ConfigChange, ...]], ...]
    validate_only: bool = False

    def decide(self, standing: Standing) -> Decision[list[Refusal | None]]:
        """Decide on each resource alone: all of its changes, or none."""
        check_not_too_many(self.resources, "resources")
        times = Counter(resource for resource, _ in self.resources)
        return _decided(
            [_changed(resource, changes, standing, times[resource]) for resource, changes in self.resources],
            standing,
            self.validate_only,
        )


@dataclass(frozen=True, slots=True)
class ReplaceConfigs:
    """Give resources these configs and no others; the reply is as for ChangeConfigs."""

    resources: tuple[tuple[ConfigResource, tuple[tuple[str, str | None], ...]], ...]
    validate_only: bool = False

    def decide(self, standing: Standing) -> Decision[list[Refusal | None]]:
        """Decide on each resource alone: all of its configs, or none."""
        check_not_too_many(self.resources, "resources")
        times = Counter(resource for resource, _ in self.resources)
        return _decided(
            [_replaced(resource, given, standing, times[resource]) for resource, given in self.resources],
            standing,
            self.validate_only,
        )


_Outcome = list[ConfigRecord] | Refusal


def _decided(
    outcomes: list[_Outcome], standing: Standing, validate_only: bool
) -> Decision[list[Refusal | None]]:
    records = [record for outcome in outcomes if isinstance(outcome, list) for record in outcome]
    reply = [outcome if isinstance(outcome, Refusal) else None for outcome in outcomes]
    if validate_only:
        return Decision((), reply)
    return Decision((*records, *_partitions_concerned(records, standing)), reply)


def _partitions_concerned(records: list[ConfigRecord], standing: Standing) -> list[Message]:
    """The records for partitions that the configs mean a change for.

    Where fewer need to be in sync than before, leaders go on committing, and what they commit then those in
    the ELR do not have (KIP-966). Where unclean leaders are allowed now, what nobody leads gets one.
    """
    names = {record.name for record in records}
    found: list[Message] = []
    if names.isdisjoint((MIN_INSYNC_REPLICAS.key, UNCLEAN_LEADER_ELECTION_ENABLE.key)):
        return found
    rules = Rules(replace(standing, image=apply(standing.image, records, standing.image.epoch)))
    if MIN_INSYNC_REPLICAS.key in names:
        found += changed_partitions(
            standing.image,
            rules,
            with_enough_in_sync,
            lambda partition: bool(partition.eligible_leaders and partition.isr),
        )[0]
    if UNCLEAN_LEADER_ELECTION_ENABLE.key in names:
        found += changed_partitions(
            standing.image, rules, with_leader_wanted, lambda partition: partition.leader == NO_LEADER
        )[0]
    return found


def _changed(
    resource: ConfigResource, changes: tuple[ConfigChange, ...], standing: Standing, times: int
) -> _Outcome:
    try:
        _check_resource(resource, standing, times, [change.name for change in changes])
        now = standing.image.config(resource)
        wanted = dict(now)
        for change in changes:
            _change_one(resource, change, wanted, standing)
        # What is removed is not checked: a name from another version must be removable.
        _check_values(resource, wanted, {one.name for one in changes if one.name in wanted}, standing)
    except Refused as refused:
        return Refusal(refused.code, str(refused))
    return _records(resource, now, wanted)


def _replaced(
    resource: ConfigResource,
    given: tuple[tuple[str, str | None], ...],
    standing: Standing,
    times: int,
) -> _Outcome:
    try:
        _check_resource(resource, standing, times, [name for name, _ in given])
        wanted: dict[str, str] = {}
        for name, value in given:
            if value is None:
                raise Refused(ErrorCode.INVALID_REQUEST, f"{name} has no value")
            wanted[name] = value
        _check_values(resource, wanted, set(wanted), standing)
    except Refused as refused:
        return Refusal(refused.code, str(refused))
    return _records(resource, standing.image.config(resource), wanted)


def _records(
    resource: ConfigResource, now: Mapping[str, str], wanted: Mapping[str, str]
) -> list[ConfigRecord]:
    names = dict.fromkeys((*now, *wanted))
    return [
        ConfigRecord(
            resource_type=resource.type, resource_name=resource.name, name=name, value=wanted.get(name)
        )
        for name in names
        if now.get(name) != wanted.get(name)
    ]


def _check_resource(resource: ConfigResource, standing: Standing, times: int, names: list[str]) -> None:
    if times > 1:
        raise Refused(ErrorCode.INVALID_REQUEST, f"the resource {resource.name!r} is named twice")
    if len(set(names)) != len(names):
        raise Refused(ErrorCode.INVALID_REQUEST, f"a config of {resource.name!r} is named twice")
    match resource.type:
        case ResourceType.TOPIC:
            if resource.name not in standing.image.topics:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {resource.name!r}")
        case ResourceType.BROKER:
            _check_broker(resource, standing)
        case _:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"resource type {resource.type} has no configs here, expected a topic (2) or a broker (4)",
            )


def _check_broker(resource: ConfigResource, standing: Standing) -> None:
    if resource == ALL_BROKERS:
        return
    if not _is_number(resource.name):
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"the broker is {resource.name!r}, expected its number, or nothing for all",
        )
    if BrokerId(int(resource.name)) not in standing.image.brokers:
        raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {resource.name} is not registered")


def _is_number(name: str) -> bool:
    # Plain decimal digits only, or one broker could have its configs under several names.
    return (
        name.isascii() and name.isdigit() and len(name) <= _INT32_DIGITS and (name[0] != "0" or name == "0")
    )


def _change_one(
    resource: ConfigResource, change: ConfigChange, wanted: dict[str, str], standing: Standing
) -> None:
    match change.operation:
        case Operation.DELETE:
            wanted.pop(change.name, None)
            return
        case Operation.SET | Operation.APPEND | Operation.SUBTRACT:
            if change.value is None:
                raise Refused(ErrorCode.INVALID_REQUEST, f"{change.name} has no value")
        case _:
            raise Refused(
                ErrorCode.INVALID_REQUEST, f"{change.name} has operation {change.operation}, expected 0 to 3"
            )
    if change.operation == Operation.SET:
        wanted[change.name] = change.value
        return
    if _kind(resource, change.name) is not Kind.LIST:
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            f"{change.name} is not a list, so nothing can be added to or taken from it",
        )
    parts = list(split_list(_effective(resource, change.name, wanted, standing)))
    operands = split_list(change.value)
    if change.operation == Operation.APPEND:
        there = set(parts)
        parts.extend(part for part in dict.fromkeys(operands) if part not in there)
    else:
        gone = set(operands)
        parts = [part for part in parts if part not in gone]
    wanted[change.name] = ",".join(parts)


def _kind(resource: ConfigResource, name: str) -> Kind | None:
    if resource.type == ResourceType.TOPIC:
        row = TOPIC_SETTINGS.get(name)
        return None if row is None else row.setting.kind
    setting = BROKER_SETTINGS.get(name)
    return None if setting is None else setting.kind


def _effective(resource: ConfigResource, name: str, wanted: Mapping[str, str], standing: Standing) -> str:
    """The list that is in force, which an append adds to even where it is a default."""
    if name in wanted:
        return wanted[name]
    if resource.type == ResourceType.TOPIC:
        origins = topic_origins(TOPIC_SETTINGS[name], wanted, standing.layers)
        return (origins[0].text or "") if origins else ""
    given = [text for _, text in standing.layers.sources(name)]
    setting = BROKER_SETTINGS[name]
    return given[0] if given else setting.text(setting.default) or ""


def _check_values(
    resource: ConfigResource, wanted: Mapping[str, str], touched: set[str], standing: Standing
) -> None:
    is_topic = resource.type == ResourceType.TOPIC
    try:
        if is_topic:
            # Only what is touched: an override from another version must not block every other change.
            check_topic_overrides(wanted, standing.layers, touched)
        else:
            for name in touched:
                _check_broker_value(resource, name, wanted[name])
    except ConfigError as error:
        # Kafka answers so: a topic's wrong value is INVALID_CONFIG, a broker's INVALID_REQUEST.
        code = ErrorCode.INVALID_CONFIG if is_topic else ErrorCode.INVALID_REQUEST
        raise Refused(code, str(error)) from None


def _check_broker_value(resource: ConfigResource, name: str, text: str) -> None:
    setting = BROKER_SETTINGS.get(name)
    if setting is None:
        raise unknown_setting(name, BROKER_SETTINGS, "broker setting")
    if setting.update is Update.READ_ONLY:
        raise ConfigError(
            f"{name} cannot change while a broker runs; set it in the broker's file and restart"
        )
    if name == MIN_INSYNC_REPLICAS.key and resource != ALL_BROKERS:
        raise ConfigError(
            f"{name} cannot differ between brokers, expected it for all or for a topic: elections rest on it"
        )
    if setting.update is Update.PER_BROKER and resource == ALL_BROKERS:
        raise ConfigError(f"{name} can only be set for one broker, not for all")
    parse_broker_value(name, text)
