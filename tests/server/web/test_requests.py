"""The path, the URL, the host and the user of a request, as the web server passes them on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import SERVICE
from support.web import INSIDE, OUTSIDE
from werkzeug.test import EnvironBuilder

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.server.web import requests

#: A byte that is not UTF-8, as werkzeug's server passes it: the bytes of a replacement character.
LOST = {"PATH_INFO": "/" + "\ufffd".encode().decode("latin-1")}


@contextmanager
def requested(root: str = "/", **environ: Any) -> Iterator[None]:
    """Answer a request with a WSGI environment; None removes a value."""
    app = Flask("app")
    app.config["APPLICATION_ROOT"] = root
    whole = {**EnvironBuilder("/").get_environ(), **environ}
    given = {name: value for name, value in whole.items() if value is not None}
    with app.request_context(given):
        yield


def test_the_path_has_the_bytes_that_the_client_sent() -> None:
    cases: list[tuple[dict[str, Any], bytes]] = [
        ({"PATH_INFO": None}, b""),
        # WSGI passes bytes as Latin-1
        ({"PATH_INFO": "/\xc3\xa9"}, "/é".encode()),
        ({"PATH_INFO": "/\xe9"}, b"/\xe9"),
        # the original path is needed only if bytes may be lost
        ({"PATH_INFO": "/a", "REQUEST_URI": "/b"}, b"/a"),
        ({**LOST, "REQUEST_URI": "/%E9?a=?&b"}, b"/\xe9"),
        ({**LOST, "REQUEST_URI": None, "RAW_URI": "/%E9"}, b"/\xe9"),
        ({**LOST, "REQUEST_URI": "/é/%E9", "SCRIPT_NAME": "/\xc3\xa9"}, b"/\xe9"),
        # a character that the client itself has sent
        ({**LOST, "REQUEST_URI": "/%EF%BF%BD"}, "/\ufffd".encode()),
        # an original path that a proxy or middleware has changed is another path
        ({**LOST, "REQUEST_URI": "/b/%E9"}, "/\ufffd".encode()),
        ({**LOST, "REQUEST_URI": None}, "/\ufffd".encode()),
    ]
    for environ, path in cases:
        with requested(**environ):
            assert requests.request_path() == path


def test_the_target_is_encoded_again_in_ascii() -> None:
    for path, query, target in [
        ("", "", "/"),
        ("/a b", "", "/a%20b"),
        ("/\xc3\xa9\xe9%", "", "/%C3%A9%E9%25"),
        ("/:@!$&'()*+,;=-._~/", "", "/:@!$&'()*+,;=-._~/"),
        ("/?#[]", "", "/%3F%23%5B%5D"),
        ("", "b", "/?b"),
        # the query is still encoded
        ("/a", "b=%C3%A9&c=d?/:@!$'()*+,;", "/a?b=%C3%A9&c=d?/:@!$'()*+,;"),
        ("/a", 'b="\xe9 #', "/a?b=%22%E9%20%23"),
    ]:
        with requested(PATH_INFO=path, QUERY_STRING=query):
            assert requests.request_target() == target


def test_the_url_has_the_scheme_the_port_the_root_and_the_query() -> None:
    # the root is the configured path, or the one of the request
    for configured, script_name, root in [
        ("/", "", ""),
        ("/", "/r\xc3\xa9po d/", "/r%C3%A9po%20d"),
        ("/b", "/a", "/b"),
    ]:
        with requested(configured, SCRIPT_NAME=script_name):
            assert requests.request_root() == root
    assert (requests.find_root(""), requests.find_root("/b")) == ("", "/b")
    # the host has a port
    for environ, host in [
        ({"HTTP_HOST": "urlib.net"}, "urlib.net:80"),
        ({"HTTP_HOST": "[2001:db8::1]:99"}, "[2001:db8::1]:99"),
        ({"HTTP_HOST": "a b", "SERVER_NAME": "a.example", "SERVER_PORT": "81"}, "a.example:81"),
        ({"HTTP_HOST": "a b", "SERVER_NAME": None, "SERVER_PORT": "81"}, "localhost:81"),
    ]:
        with requested(**environ):
            assert requests.request_host() == host
    where = {"SCRIPT_NAME": "/b", "PATH_INFO": "/c", "QUERY_STRING": "d", "HTTP_HOST": "a.example"}
    with requested(**where, **{"wsgi.url_scheme": "https"}):
        assert requests.request_url() == "https://a.example:443/b/c?d"
    # any name of the host
    for url, is_own in [
        ("http://A.example:80/b/%63?e", True),
        ("http://b.example:81/b/c", True),
        ("http://a.example/b", False),
        ("http://b.example/b/c", False),
    ]:
        with requested(**where):
            assert requests.is_request_url(url, "b.example:81") is is_own
    # a request that names a subject is a message
    for query, is_message in [
        ("a=b&servicesubject=urlRequest", True),
        ("servicesubject", False),
        ("SERVICESUBJECT=urlRequest", False),
    ]:
        with requested(QUERY_STRING=query):
            assert requests.is_message() is is_message


PROXY, FAR_PROXY = "10.0.0.1", "10.9.0.7"
TRUSTED = [*map(ip_network, ("10.0.0.0/8", "2001:db8:ffff::/48", "127.0.0.1/32"))]


@pytest.mark.rule("R62-07")
def test_the_user_is_the_last_client_that_is_not_a_trusted_proxy() -> None:
    for text, address in [
        (None, None),
        ("150.163.2.175:4711", "150.163.2.175"),
        ("150.163.2.256", None),
        ("0150.163.2.1", None),
        ("2001:DB8::1", "2001:db8::1"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ("::ffff:150.163.2.175", "150.163.2.175"),
        ("fe80::1%eth0", "fe80::1"),
        ("unix:/run/x.sock", None),
        ("1" * 10000, None),
    ]:
        found = requests.find_address(text)
        assert (None if found is None else str(found)) == address
    cases: list[tuple[str | None, list[str], tuple[str, ...]]] = [
        (None, [INSIDE], ()),
        # the client is not a trusted proxy
        (OUTSIDE, [INSIDE], (OUTSIDE,)),
        (PROXY, [], (PROXY,)),
        # an untrusted client may have written the addresses to the left of its own
        (PROXY, [f"{INSIDE},{OUTSIDE} , {FAR_PROXY}"], (OUTSIDE, FAR_PROXY, PROXY)),
        (PROXY, [INSIDE, OUTSIDE, FAR_PROXY], (OUTSIDE, FAR_PROXY, PROXY)),
        # entries of an untrusted client need not be valid
        (PROXY, [f"unknown, {OUTSIDE}:4711"], (OUTSIDE, PROXY)),
        (PROXY, ["2001:db8::1, 2001:db8:ffff::9"], ("2001:db8::1", "2001:db8:ffff::9", PROXY)),
        (f"::ffff:{PROXY}", [OUTSIDE], (OUTSIDE, PROXY)),
        # the user is unknown if a trusted proxy sends an invalid address
        (PROXY, [""], ()),
        (PROXY, [f"{INSIDE}, unknown, {FAR_PROXY}"], ()),
    ]
    for peer, forwarded, addresses in cases:
        assert requests.forwarded_addresses(peer, forwarded, TRUSTED) == addresses
    # the user is unknown if there are too many proxies
    chain = ",".join([PROXY] * requests.MAX_PROXIES)
    count = requests.MAX_PROXIES + 1
    assert len(requests.forwarded_addresses(PROXY, [chain], TRUSTED)) == count
    assert requests.forwarded_addresses(PROXY, [f"{chain},{PROXY}"], TRUSTED) == ()


def add_archive(app: Flask, uri: str) -> None:
    app.config.update(
        IBI_DATABASE_URI=uri, IBI_ARCHIVE_ADDRESS="a.example", IBI_ARCHIVE_SERVICE_IBI=SERVICE
    )
    IBIArchive(app)


def add_resolver(app: Flask, uri: str) -> None:
    app.config["IBI_RESOLVER_DATABASE_URI"] = uri
    IBIResolver(app)


@pytest.mark.parametrize("extension", [add_archive, add_resolver])
def test_the_addresses_of_a_request_depend_on_the_trusted_proxies_of_the_app(
    tmp_path: Path, extension: Callable[[Flask, str], None]
) -> None:
    app = Flask("app", instance_path=str(tmp_path / "instance"))
    app.config.from_mapping(SECRET_KEY="a secret", IBI_TRUSTED_PROXIES=["10.0.0.0/8"])
    extension(app, f"sqlite:///{tmp_path / 'none.sqlite'}")
    cases: list[tuple[str | None, list[str], tuple[str, ...]]] = [
        (None, [], ("0.0.0.0",)),
        (PROXY, ["unknown"], ("0.0.0.0",)),
        (PROXY, [f"{INSIDE}, {OUTSIDE}", FAR_PROXY], (OUTSIDE, FAR_PROXY, PROXY)),
    ]
    for remote, forwarded, addresses in cases:
        headers = [("X-Forwarded-For", value) for value in forwarded]
        with app.test_request_context(headers=headers, environ_overrides={"REMOTE_ADDR": remote}):
            assert requests.request_addresses() == addresses
            assert requests.user_address() == addresses[0]
