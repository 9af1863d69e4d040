"""BrokerSettings: what one node was told, read, checked and ready to use."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar, cast

from everlog.model.dataclass import dataclass
from everlog.model.errors import ConfigError
from everlog.model.ids import BrokerId
from everlog.model.settings import broker_table as table
from everlog.model.settings.kinds import Setting, Update
from everlog.model.settings.listeners import (
    SERVED_PROTOCOLS,
    Listener,
    SecurityProtocol,
    parse_listeners,
    parse_protocol_map,
)
from everlog.model.settings.properties import parse_properties
from everlog.model.settings.topic_table import TOPIC_SETTINGS

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SettingValues:
    """A value for each row of the broker's table; asking with a row gives its type."""

    by_key: Mapping[str, object]

    def __getitem__(self, setting: Setting[T]) -> T:
        return cast(T, self.by_key[setting.key])  # parse made it from this very setting


@dataclass(frozen=True, slots=True)
class VoterAddress:
    """A controller that votes, and where it is reached."""

    id: int
    host: str
    port: int


@dataclass(frozen=True, eq=False)
class BrokerSettings:
    """The settings of one node: `settings[SETTING]` is the value, typed as the table has it.

    What is checked when it is made holds for ever: every key known, every value legal, roles,
    listeners and directories consistent with each other.
    """

    given: Mapping[str, str]
    """What was set and to what text, defaults left out."""
    values: "SettingValues"
    """Every setting's value."""
    node_id: BrokerId
    roles: frozenset[str]
    listeners: tuple[Listener, ...]
    """Where to listen, the controller's listeners included."""
    advertised: tuple[Listener, ...]
    """What to tell clients, broker listeners only; an empty host or port 0 is filled in by who listens."""
    controller_listener_names: frozenset[str]
    voters: tuple[VoterAddress, ...]
    """The controllers of `controller.quorum.voters`; none where they are found in the metadata log."""
    log_dirs: tuple[str, ...]
    metadata_log_dir: str

    def __getitem__(self, setting: Setting[T]) -> T:
        return self.values[setting]

    @property
    def broker_listeners(self) -> tuple[Listener, ...]:
        """The listeners that serve clients and brokers; none on a node that is a controller only."""
        if not self.is_broker:
            return ()
        return tuple(one for one in self.listeners if one.name not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """The listeners that serve the quorum and brokers' requests to the controller."""
        return tuple(one for one in self.listeners if one.name in self.controller_listener_names)

    @property
    def is_broker(self) -> bool:
        """Whether this node holds partitions."""
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        """Whether this node is to vote in the quorum."""
        return "controller" in self.roles

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener on which brokers reach each other."""
        named = self.values[table.INTER_BROKER_LISTENER_NAME]
        if named is not None:
            return named.upper()
        names = [one.name for one in self.advertised]
        return "PLAINTEXT" if "PLAINTEXT" in names or not names else names[0]

    def with_dynamic(self, *layers: Mapping[str, str]) -> "BrokerSettings":
        """The settings as they are with what was changed while running; the last layer wins.

        Values that this version cannot read, or that may not change, are passed over: they were
        checked when they were set, and a broker does not stop over one that it does not know.
        """
        given = dict(self.given)
        for layer in layers:
            for key, text in layer.items():
                setting = table.BROKER_SETTINGS.get(key)
                if setting is not None and setting.update is not Update.READ_ONLY and readable(setting, text):
                    given[key] = text
        if given == self.given:
            return self
        return _checked(given)


def parse_broker_settings(text: str, overrides: Mapping[str, str] | None = None) -> BrokerSettings:
    """Read a server.properties text, with overrides on top; ConfigError names what is unknown or wrong."""
    return broker_settings({**parse_properties(text), **(overrides or {})})


def broker_settings(given: Mapping[str, str]) -> BrokerSettings:
    """Check the given keys and values together; ConfigError names what is unknown or wrong."""
    for key in given:
        if key not in table.BROKER_SETTINGS:
            raise unknown_setting(key, table.BROKER_SETTINGS)
    return _checked(given)


def unknown_setting(key: str, known: Mapping[str, object], what: str = "setting") -> ConfigError:
    """The error for a key that is not in the table, with the nearest one that is."""
    # Only a start that fails pays for it.
    from difflib import get_close_matches

    near = get_close_matches(key, known, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    if not near and key in TOPIC_SETTINGS:
        hint = "; it is a topic's setting"
    return ConfigError(f"{key} is not a {what} that this version knows{hint}")


def parse_broker_value(key: str, text: str) -> object:
    """Check one value as a running broker would take it; ConfigError if it is unknown or wrong."""
    setting = table.BROKER_SETTINGS.get(key)
    if setting is None:
        raise unknown_setting(key, table.BROKER_SETTINGS, "broker setting")
    return setting.parse(text)


def readable(setting: Setting[T], text: str) -> bool:
    """Whether the text is a value of the setting that this version serves."""
    try:
        setting.parse(text)
    except ConfigError:
        return False
    return True


def _checked(given: Mapping[str, str]) -> BrokerSettings:
    values = SettingValues(
        MappingProxyType(
            {
                key: setting.parse(given[key]) if key in given else setting.default
                for key, setting in table.BROKER_SETTINGS.items()
            }
        )
    )
    node_id = values[table.NODE_ID]
    if node_id is None:
        raise ConfigError("node.id is not set, expected the number of this node, such as 1")
    named_roles = values[table.PROCESS_ROLES]
    roles = frozenset(named_roles)
    if not roles:
        raise ConfigError("process.roles is not set, expected broker,controller")
    controller_names = frozenset(name.upper() for name in values[table.CONTROLLER_LISTENER_NAMES])
    listeners, advertised = _listeners(values, roles, controller_names)
    voters = tuple(_parse_voter(one) for one in values[table.CONTROLLER_QUORUM_VOTERS])
    _check_quorum(values, node_id, roles, voters, listeners, controller_names)
    log_dirs = values[table.LOG_DIRS] or values[table.LOG_DIR]
    return BrokerSettings(
        given=MappingProxyType(dict(given)),
        values=values,
        node_id=BrokerId(node_id),
        roles=roles,
        listeners=listeners,
        advertised=advertised,
        controller_listener_names=controller_names,
        voters=voters,
        log_dirs=log_dirs,
        metadata_log_dir=values[table.METADATA_LOG_DIR] or log_dirs[0],
    )


def _listeners(
    values: SettingValues, roles: frozenset[str], controller_names: frozenset[str]
) -> tuple[tuple[Listener, ...], tuple[Listener, ...]]:
    protocols = parse_protocol_map(
        table.LISTENER_SECURITY_PROTOCOL_MAP.key, values[table.LISTENER_SECURITY_PROTOCOL_MAP]
    )
    if values[table.LISTENER_SECURITY_PROTOCOL_MAP] == table.LISTENER_SECURITY_PROTOCOL_MAP.default:
        # As in Kafka: who maps nothing may call the controller's listener what he likes.
        protocols = {**dict.fromkeys(controller_names, SecurityProtocol.PLAINTEXT), **protocols}
    listeners = parse_listeners("listeners", values[table.LISTENERS], protocols)
    for listener in listeners:
        _check_security(listener, values[table.ALLOW_INSECURE_LISTENER])
    serving = [one for one in listeners if one.name not in controller_names]
    if not serving and "broker" in roles:
        raise ConfigError("listeners are all in controller.listener.names, expected one that serves clients")
    told = parse_listeners("advertised.listeners", values[table.ADVERTISED_LISTENERS], protocols) or tuple(
        serving
    )
    names = {one.name for one in listeners}
    for listener in told:
        if listener.name not in names:
            raise ConfigError(
                f"advertised.listeners has {listener}, expected one of the listeners' names: "
                f"{', '.join(sorted(names))}"
            )
        if listener.host in {"0.0.0.0", "::"}:
            raise ConfigError(
                f"advertised.listeners would tell clients to connect to {listener}, "
                "expected an address that they can reach"
            )
    inter_broker = values[table.INTER_BROKER_LISTENER_NAME]
    if (
        "broker" in roles
        and inter_broker is not None
        and inter_broker.upper() not in {one.name for one in serving}
    ):
        raise ConfigError(
            f"inter.broker.listener.name is {inter_broker!r}, expected one of "
            f"{', '.join(one.name for one in serving)}"
        )
    return listeners, tuple(one for one in told if one.name not in controller_names)


def _check_security(listener: Listener, allow_insecure: bool) -> None:
    if listener.protocol not in SERVED_PROTOCOLS:
        raise ConfigError(
            f"listeners has {listener} with {listener.protocol.name}, "
            f"expected {', '.join(one.name for one in SERVED_PROTOCOLS)}: this version serves no other"
        )
    if listener.reachable_from_elsewhere and not allow_insecure:
        raise ConfigError(
            f"listeners has {listener}, which other machines can reach without encryption or a password; "
            "expected a loopback address such as 127.0.0.1, or allow.insecure.listener=true"
        )


def _parse_voter(text: str) -> VoterAddress:
    number, at, address = text.partition("@")
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (at and colon and host and number.isdigit() and port.isdigit() and 0 < int(port) < 65_536):
        raise ConfigError(f"controller.quorum.voters has {text!r}, expected id@host:port")
    return VoterAddress(int(number), host, int(port))


def _check_quorum(
    values: SettingValues,
    node_id: int,
    roles: frozenset[str],
    voters: tuple[VoterAddress, ...],
    listeners: tuple[Listener, ...],
    controller_names: frozenset[str],
) -> None:
    """ConfigError where the roles, the voters and the listeners do not make a cluster."""
    ids = [one.id for one in voters]
    if len(set(ids)) != len(ids):
        raise ConfigError(f"controller.quorum.voters names a node twice: {ids}; expected each once")
    if "controller" not in roles:
        if node_id in ids:
            raise ConfigError(
                f"controller.quorum.voters names this node, {node_id}, whose process.roles is broker; "
                "expected broker,controller, or other nodes as voters"
            )
        if not voters and not values[table.CONTROLLER_QUORUM_BOOTSTRAP_SERVERS]:
            raise ConfigError(
                "process.roles is broker and nothing says where the controllers are, expected "
                "controller.quorum.voters or controller.quorum.bootstrap.servers"
            )
    elif voters and node_id not in ids:
        raise ConfigError(
            f"controller.quorum.voters has the nodes {ids}, expected this controller, {node_id}, among them"
        )
    alone = not values[table.CONTROLLER_QUORUM_BOOTSTRAP_SERVERS] and set(ids) <= {node_id}
    reached = any(one.name in controller_names for one in listeners)
    if "controller" in roles and not reached and not (alone and "broker" in roles):
        raise ConfigError(
            "controller.listener.names names none of the listeners, expected one on which the other "
            "nodes reach this controller"
        )
    if len(ids) > 1 and values[table.CLUSTER_ID] is None:
        raise ConfigError(
            "cluster.id is not set, expected the same on every node of a cluster, "
            "such as MkU3OEVBNTcwNTJENDM2Qg"
        )
