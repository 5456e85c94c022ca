"""Requests to addresses that somebody else named: where they may lead, and what goes along."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.archive_servers import Servers, http, says
from support.far import Reply, far_server
from support.internal import OTHERS, THIS_MACHINE, Names
from support.loopback import LOOPBACK
from support.registries import SERVICE, a_registry, a_request, resolver_database

from flask_ibi_archive.archive.links.client import LinkClient
from flask_ibi_archive.archive.links.rate_limit import HostLimits
from flask_ibi_archive.archive.transport import HttpResponse, fetch
from flask_ibi_archive.errors import TransportError
from flask_ibi_archive.protocol.hosts import NO_INNER_HOSTS, InnerHosts, parse_inner_hosts
from flask_ibi_archive.resolver.registry import Registry

KEY = "1234567890"
ONE, OTHER = "127.0.0.1", "127.0.0.2"
#: One address of this machine is outside, for these tests, and all others are inside.
ONE_ALONE = parse_inner_hosts([ONE])
REFUSED = "has an internal IP address, which IBI_INNER_HOSTS does not allow"


def ask(url: str, inner_hosts: InnerHosts | None) -> HttpResponse:
    return fetch(url, seconds=20, limit=100, inner_hosts=inner_hosts)


def is_refused(url: str, inner_hosts: InnerHosts) -> bool:
    try:
        ask(url, inner_hosts)
    except TransportError as error:
        return str(error) == f"{url} has an internal IP address" and error.kind == "internal"
    return False


def client(inner_hosts: InnerHosts) -> LinkClient:
    return LinkClient(HostLimits(0, lambda: 0.0, lambda seconds: None), "x", inner_hosts, 20)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """Names for the test to fill."""
    found = Names({})
    monkeypatch.setattr(socket, "getaddrinfo", found)
    return found


# --- where they may lead -------------------------------------------------------------------------


@pytest.mark.parametrize("host", THIS_MACHINE)
def test_this_machine_is_not_asked_however_it_is_written(host: str, hosts: Servers) -> None:
    here = hosts.add(says(http("secret")))
    url = f"http://{host}:{here.port}/x"
    assert is_refused(url, NO_INNER_HOSTS)
    assert is_refused(url.replace("http:", "https:"), NO_INNER_HOSTS)
    assert client(NO_INNER_HOSTS).look(url).error == REFUSED
    assert here.accepted == 0


@pytest.mark.parametrize("host", OTHERS)
def test_nor_is_any_other_internal_address(host: str) -> None:
    assert is_refused(f"http://{host}/latest/meta-data/", NO_INNER_HOSTS)
    assert client(NO_INNER_HOSTS).look(f"http://{host}/").error == REFUSED


@pytest.mark.parametrize("host", ["１２７.0.0.1", "ⓛocalhost", "127。0。0。1", "bücher.br"])
def test_nor_is_one_in_other_letters_than_those_of_ascii(
    host: str, hosts: Servers, names: Names
) -> None:
    here = hosts.add(says(http("secret")))
    names.addresses["xn--bcher-kva.br"] = [[ONE]]
    error = client(NO_INNER_HOSTS).look(f"http://{host}:{here.port}/x").error
    assert error in (REFUSED, "is no address that can be asked for")
    assert (error == REFUSED) or host != "bücher.br"
    assert here.accepted == 0


@pytest.mark.parametrize(
    "allowed", [["127.0.0.0/8"], [ONE], ["name.br"], [".br"], ["10.0.0.0/8", "name.br"]]
)
def test_a_setting_allows_a_host_or_its_network(
    allowed: list[str], hosts: Servers, names: Names
) -> None:
    here = hosts.add(says(http("confirmation yes")))
    names.addresses["name.br"] = [[ONE]]
    url = f"http://name.br:{here.port}/x"
    assert is_refused(url, NO_INNER_HOSTS)
    assert is_refused(url, parse_inner_hosts(["10.0.0.0/8", "other.br", OTHER]))
    assert ask(url, parse_inner_hosts(allowed)).text == "confirmation yes"
    assert f"Host: name.br:{here.port}" in here.heads[0]


def test_a_name_that_leads_elsewhere_when_it_is_looked_up_again_gains_nothing(
    hosts: Servers, names: Names
) -> None:
    outside = hosts.add(says(http("outside")))
    inside = hosts.add(says(http("inside")), place=(OTHER, outside.port))
    names.addresses["evil.br"] = [[ONE], [OTHER]]
    url = f"http://evil.br:{outside.port}/x"
    assert ask(url, ONE_ALONE).text == "outside"
    assert names.asked == ["evil.br"]
    assert is_refused(url, ONE_ALONE)
    assert inside.accepted == 0


def test_of_several_addresses_only_those_are_tried_that_are_allowed(
    hosts: Servers, names: Names
) -> None:
    outside = hosts.add(says(http("outside")))
    inside = hosts.add(says(http("inside")), place=(OTHER, outside.port))
    names.addresses["both.br"] = [[OTHER, "::1", ONE]]
    assert ask(f"http://both.br:{outside.port}/x", ONE_ALONE).text == "outside"
    # the first one that answers
    names.addresses["more.br"] = [["127.0.0.3", ONE]]
    assert ask(f"http://more.br:{outside.port}/x", LOOPBACK).text == "outside"
    assert inside.accepted == 0


def test_a_redirect_from_outside_does_not_lead_inside(names: Names) -> None:
    names.addresses.update({"public.br": [[ONE]], "evil.br": [[OTHER]]})
    with far_server() as far:
        for number, host in enumerate([OTHER, "2130706434", "0x7f.2", "evil.br"]):
            far.replies[f"a{number}"] = Reply(302, {"Location": far.url("secret", host)})
            error = client(ONE_ALONE).look(far.url(f"a{number}", "public.br")).error
            assert error == f"leads to {far.url('secret', host)}, which {REFUSED}"
        assert {asked.path for asked in far.asked} == {"a0", "a1", "a2", "a3"}
        far.replies["b"] = Reply(302, {"Location": far.url("c", ONE)})
        far.replies["c"] = Reply()
        assert client(ONE_ALONE).look(far.url("b", "public.br")).error is None


# --- what goes along -----------------------------------------------------------------------------


@pytest.fixture
def proxy(hosts: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a proxy; the environment names it, and ~/.netrc has a password for every host."""
    server = hosts.add(says(http("confirmation yes", Via="the proxy")))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://{server.address}")
    for name in ("no_proxy", "NO_PROXY", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".netrc").write_text("default login user password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    yield server.address
    assert not any("authorization" in head.lower() for head in server.heads)


def test_an_archive_that_is_called_back_gets_no_password_and_no_proxy_is_asked(
    proxy: str, hosts: Servers
) -> None:
    archive = hosts.add(says(http("confirmation yes")))
    with resolver_database("sqlite://") as database:
        registry = Registry(database, a_registry(database).config, cost=2**4)
        registry.register(SERVICE, KEY)
        assert registry.process(a_request(address=archive.address)).confirmed
    [head] = archive.heads
    assert head.startswith(f"GET /{SERVICE}?servicesubject=inclusionConfirmationRequest HTTP/1.1")
    assert "authorization" not in head.lower()


def test_a_link_that_is_checked_gets_neither(proxy: str) -> None:
    with far_server() as far:
        far.replies["a"] = Reply()
        assert client(LOOPBACK).look(far.url("a")).error is None
    [asked] = far.asked
    assert "Authorization" not in asked.headers


def test_an_address_of_our_own_settings_is_asked_through_the_proxy_without_a_password(
    proxy: str,
) -> None:
    answer = ask("http://resolver.example.org/x", None)
    assert (answer.text, answer.headers["via"]) == ("confirmation yes", "the proxy")


def test_a_password_is_sent_where_the_url_of_our_own_settings_has_it(hosts: Servers) -> None:
    resolver = hosts.add(says(http("status")))
    ask(f"http://user:secret@{resolver.address}/x", None)
    assert "Authorization: Basic dXNlcjpzZWNyZXQ=" in resolver.heads[0]
