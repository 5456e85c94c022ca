"""The form of a host, and that whoever builds a response from it gets along with it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from werkzeug.urls import iri_to_uri

from flask_ibi_archive.protocol.hosts import is_host


@pytest.mark.parametrize(
    "host",
    ["a", "a.br", "a.br.", "a_b.br", "127.0.0.1", "[::1]", "[2001:db8::1]", "a" * 63 + ".br", "-"],
)
def test_these_are_hosts(host: str) -> None:
    assert is_host(host)


@pytest.mark.parametrize(
    "host",
    [
        *(
            "",
            ".",
            "a..br",
            ".br",
            "a.br..",
            "a" * 64,
            "a." * 127 + "br",
            "bücher.br",
            "a b",
            "a/b",
        ),
        *("[]", "[::1", "::1", "[::1%eth0]", "[127.0.0.1]", "[v1.a]", "a:80", "a@b"),
    ],
)
def test_these_are_none(host: str) -> None:
    assert not is_host(host)


@given(
    st.text(alphabet="ab-_.:[]%0", max_size=80) | st.text(max_size=20),
    st.integers(0, 65535).map(str) | st.just(""),
)
@example("a" * 63, "80")
@example("xn--a", "")
def test_a_reader_can_be_led_to_every_host(host: str, port: str) -> None:
    url = f"http://{host}:{port}/x"
    if is_host(host):
        assert iri_to_uri(url).startswith("http://")
