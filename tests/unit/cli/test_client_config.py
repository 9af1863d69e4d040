"""`--client-config`: a file of Kafka's names for every command that connects."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from everlog.cli import connect, ranges
from everlog.cli.client_config import client_config, read_client_config
from everlog.cli.options import bootstrap_option
from everlog.client.core.settings import ConnectionSettings, read_settings
from tests.unit.cli.test_commands import LEAVES, ids

LOGIN = "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nsasl.username=ann\nsasl.password=hush\n"
SETTINGS = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_username": "ann",
    "sasl_password": "hush",
}
CONNECTED = [
    entry
    for entry in LEAVES
    if any("--bootstrap" in one.opts for one in entry[1].params) and entry[0][0] != "chaos"
]


@pytest.fixture
def written(tmp_path: Path) -> Any:
    def write(text: str) -> str:
        path = tmp_path / "client.properties"
        path.write_text(text, "utf-8")
        return str(path)

    return write


@click.command()
@bootstrap_option
def show(bootstrap: str, timeout: float) -> None:
    assert (bootstrap, timeout) == ("127.0.0.1:9092", 10.0)
    seen.append(client_config())


seen: list[dict[str, Any]] = []


def shown(*arguments: str, **variables: str) -> dict[str, Any]:
    """What clients of a command with these arguments get."""
    ran = CliRunner().invoke(show, arguments, env=variables)
    assert ran.exit_code == 0, ran.output
    return seen.pop()


@pytest.mark.parametrize(("path", "command"), CONNECTED, ids=ids(CONNECTED))
def test_every_command_that_connects_takes_it(path: tuple[str, ...], command: click.Command) -> None:
    option = next(one for one in command.params if "--client-config" in one.opts)

    assert option.envvar == "EVERLOG_CLIENT_CONFIG", path


def test_the_file_is_named_by_the_option_or_the_variable(written: Any) -> None:
    path = written(LOGIN)

    assert shown() == {}
    assert shown("--client-config", path) == SETTINGS
    assert shown(EVERLOG_CLIENT_CONFIG=path) == SETTINGS
    assert client_config() == {}, "no command runs"


def test_clients_get_it_and_the_commands_limits(written: Any) -> None:
    with click.Context(show) as context:
        context.meta.update(_meta_of(written("client.id=mine\nretry.backoff.ms=7")))
        told = connect.client_settings(2.0)
        with (
            connect.open_producer("127.0.0.1:1", 2.0) as producer,
            ranges.open_reader("127.0.0.1:1", 2.0) as consumer,
        ):
            made = [client.settings for client in (producer, consumer)]

    assert told["request_timeout_ms"] == 2000
    assert [(one.client_id, one.retry_backoff_ms, one.request_timeout_ms) for one in made] == [
        ("mine", 7, 2000)
    ] * 2


def _meta_of(path: str) -> dict[str, Any]:
    """What a command that was called with the file keeps."""
    kept: dict[str, Any] = {}

    @click.command()
    @bootstrap_option
    def take(bootstrap: str, timeout: float) -> None:
        kept.update(click.get_current_context().meta)

    assert CliRunner().invoke(take, ["--client-config", path]).exit_code == 0
    return kept


def test_javas_way_to_say_it_is_understood(written: Any) -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    text = (
        "# as kafka-topics.sh has it\nsecurity.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={module} required \\\n  username="ann" password="hush";\n'
        "ssl.truststore.type=PEM\nssl.truststore.location=/ca.pem\n"
    )

    read = read_client_config(written(text))

    assert read == {**SETTINGS, "ssl_cafile": "/ca.pem"}
    assert "hush" not in repr(read_settings(ConnectionSettings, read))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sasl.mechansim=PLAIN", "unknown setting sasl_mechansim='PLAIN': did you mean sasl_mechanism?"),
        ("acks=all", "unknown setting acks"),
        ("bootstrap.servers=a:1", "bootstrap.servers has no place here: --bootstrap says it"),
        ("request.timeout.ms=1", "request.timeout.ms has no place here: --timeout says it"),
        ("retry.backoff.ms=soon", "retry.backoff.ms='soon': expected a whole number"),
        ("security.protocol=TLS", "security_protocol='TLS': expected one of"),
        ("sasl.username=ann", "sasl_username goes with SASL"),
        ("ssl.truststore.location=/a.jks", "only PEM files can be read here"),
        (LOGIN + "sasl.pasword=hush", "unknown setting sasl_pasword: did you mean sasl_password?"),
        (LOGIN + "sasl.password=hush", "sasl.password is given twice"),
        ("sasl.password=hush\\u00zz", "sasl.password has \\u without four hexadecimal digits"),
        (LOGIN + "sasl.jaas.config=hush", "sasl.jaas.config stands beside sasl.username"),
    ],
)
def test_what_is_unknown_or_wrong_is_refused_by_name_and_no_secret_is_shown(
    written: Any, text: str, said: str
) -> None:
    path = written(text)

    ran = CliRunner().invoke(show, ["--client-config", path])

    assert ran.exit_code == 2
    assert f"client config {path}: " in ran.output
    assert said in ran.output
    assert "hush" not in ran.output


def test_a_file_that_is_not_there_or_no_text_is_said(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name, said in (("missing", "No such file or directory"), ("binary", "expected UTF-8")):
        ran = CliRunner().invoke(show, ["--client-config", str(tmp_path / name)])
        assert (ran.exit_code, said in ran.output) == (2, True), ran.output
