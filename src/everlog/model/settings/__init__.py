"""Every setting that Everlog has, in one table, and what is read with it.

`broker_table` and `topic_table` hold the rows: key, type, default, bounds, meaning, how it may change.
`broker` reads a node's settings, `topic` says what a topic obeys. Whoever needs a value imports its row
and asks `settings[ROW]`; there is no value that is not in a row.
"""

from everlog.model.settings.broker import (
    BrokerSettings,
    broker_settings,
    parse_broker_settings,
    parse_broker_value,
)
from everlog.model.settings.broker_table import BROKER_SETTINGS
from everlog.model.settings.kinds import Kind, Setting, Update
from everlog.model.settings.listeners import Listener, SecurityProtocol
from everlog.model.settings.topic import (
    Layers,
    Origin,
    Source,
    check_topic_overrides,
    parse_topic_value,
    topic_origins,
    topic_value,
)
from everlog.model.settings.topic_table import INTERNAL_KEYS, TOPIC_SETTINGS, TopicSetting

__all__ = [
    "BROKER_SETTINGS",
    "INTERNAL_KEYS",
    "TOPIC_SETTINGS",
    "BrokerSettings",
    "Kind",
    "Layers",
    "Listener",
    "Origin",
    "SecurityProtocol",
    "Setting",
    "Source",
    "TopicSetting",
    "Update",
    "broker_settings",
    "check_topic_overrides",
    "parse_broker_settings",
    "parse_broker_value",
    "parse_topic_value",
    "topic_origins",
    "topic_value",
]
