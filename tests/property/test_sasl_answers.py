"""Whatever a broker sends in a SASL exchange, it ends well or with AuthenticationFailed, and nothing else."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from everlog.client.core.errors import AuthenticationFailed
from everlog.client.core.security.sasl import carry_on, oauthbearer
from everlog.client.core.security.scram import scram

NONCE = "rOprNGfwEbeRWgbNEkqO"
FIELDS = st.one_of(
    st.binary(max_size=60),
    st.lists(
        st.sampled_from(
            [
                f"r={NONCE}x",
                f"r={NONCE}",
                "r=",
                "s=W22ZaJ0SNY7soEsUEjb6gQ==",
                "s=W22",
                "s=",
                "i=4096",
                "i=-1",
                "i=٤٠٩٦",
                "i=99999999999",
                "m=x",
                "e=why",
                "v=AAAA",
                "v=",
                "=",
                "",
                "x",
            ]
        ),
        max_size=6,
    ).map(lambda parts: ",".join(parts).encode()),
)


@settings(deadline=None)
@given(FIELDS, FIELDS)
def test_scram_trusts_nobody(server_first: bytes, server_final: bytes) -> None:
    exchange = scram("sha256", "user", "pencil", NONCE)
    next(exchange)

    with contextlib.suppress(AuthenticationFailed):
        assert carry_on(exchange, server_first) is not None
        carry_on(exchange, server_final)
        raise AssertionError("a broker without the password was believed")


@settings(deadline=None)
@given(st.binary(max_size=80) | st.sampled_from([b"{}", b"[]", b'{"status":1}', b"null", b"\xff"]))
def test_a_bearers_broker_may_answer_anything(answer: bytes) -> None:
    exchange = oauthbearer("token", {})
    next(exchange)

    with contextlib.suppress(AuthenticationFailed):
        if carry_on(exchange, answer) is not None:
            carry_on(exchange, b"")
            raise AssertionError("a refusal was taken for a yes")
