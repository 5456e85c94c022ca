"""Access rules: every page and file applies them to the real address of the user."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from support.archives import archive_of, import_records
from support.cases import for_each
from support.web import (
    CLOSED,
    CLOSED_METADATA,
    CLOSED_URL,
    CONTENTS,
    HIDDEN,
    HIDDEN_BARE,
    INSIDE,
    METADATA,
    OUTSIDE,
    PLAIN_CLOSED,
    REPORT,
    WITH_CLOSED_METADATA,
    WITH_METADATA,
    Answer,
    ask,
    ask_urls,
    follow,
    rep,
    source,
)

PROXY, FAR_PROXY = "10.0.0.1", "10.9.0.7"


# --- the access of users

FILE = "doc/report.pdf"


def status(app: Flask, ibi: str, rest: str, remote: str | None) -> int:
    return ask(app, f"/col/{ibi}/{rest}", remote=remote).status


@for_each("remote", [INSIDE, "150.163.255.255", "2001:db8::5", f"::ffff:{INSIDE}"])
@for_each("ibi", [CLOSED, HIDDEN, HIDDEN_BARE, PLAIN_CLOSED])
def test_users_in_the_networks_can_read_everything(web: Flask, ibi: str, remote: str) -> None:
    answer = ask(web, f"/col/{ibi}/{FILE}", remote=remote)
    assert (answer.status, answer.body) == (200, CONTENTS["report.pdf"])
    for rest in ("", "files"):
        answer = ask(web, f"/col/{ibi}/{rest}", remote=remote)
        assert answer.status == 200
        assert f"/col/{ibi}/doc/report.pdf" in answer.text


#: Addresses outside the networks of the rules, and addresses that are not known.
OUTSIDERS = [
    OUTSIDE,
    "2001:db9::1",
    "::ffff:1.2.3.4",
    None,
    "unix:",
]


@pytest.mark.rule("R72-27")
@for_each("remote", OUTSIDERS)
@for_each("others", ["metadata", "none"])
def test_users_outside_the_networks_get_no_file_and_no_list(
    web: Flask, others: str, remote: str | None
) -> None:
    for ibi in {"metadata": (CLOSED, PLAIN_CLOSED), "none": (HIDDEN, HIDDEN_BARE)}[others]:
        # existing and missing files look the same
        for rest in (FILE, "doc/none.pdf", "files"):
            answer = ask(web, f"/col/{ibi}/{rest}", remote=remote)
            assert answer.status == 403
            assert "Access to this item is restricted" in answer.text
            # the links to other languages, before <main>, repeat the requested path
            assert "report.pdf" not in answer.text.partition("<main")[2]
            assert answer.headers["Cache-Control"].startswith("private")
        landing = ask(web, f"/col/{ibi}/", remote=remote)
        assert landing.status == (200 if others == "metadata" else 403)
        assert "report.pdf" not in landing.text
        assert "connect from its network" in landing.text


def test_ranges_and_conditions_do_not_open_a_restricted_file(web: Flask) -> None:
    for headers in ({"Range": "bytes=0-1"}, {"If-None-Match": "*"}, {"If-None-Match": '"x"'}):
        for method in ("GET", "HEAD"):
            answer = ask(web, f"/col/{CLOSED}/{FILE}", method, headers, remote=OUTSIDE)
            assert answer.status == 403
            assert "ETag" not in answer.headers


def test_the_url_of_a_restricted_file_on_another_server_is_not_shown(web: Flask) -> None:
    assert status(web, CLOSED_URL, "doc/far.pdf", INSIDE) == 302
    answer = ask(web, f"/col/{CLOSED_URL}/doc/far.pdf", remote=OUTSIDE)
    assert answer.status == 403
    assert "Location" not in answer.headers
    assert "example.org" not in answer.text


def test_the_rule_of_an_item_does_not_restrict_its_metadata(web: Flask) -> None:
    assert status(web, CLOSED, "metadata", OUTSIDE) == 302  # to the landing page
    assert status(web, CLOSED, "metadata?choice=oai_dc", OUTSIDE) == 200
    assert status(web, PLAIN_CLOSED, "metadata", OUTSIDE) == 404


@pytest.mark.slow
@for_each("remote", OUTSIDERS)
def test_a_hidden_description_is_on_no_page_and_in_no_format(
    web: Flask, remote: str | None
) -> None:
    formats = [format.name for format in archive_of(web).formats]
    choices = [f"metadata?choice={name}" for name in (*formats, "unknown", "not a format")]
    for rest in ("", "metadata", *choices, "files", FILE, "statistics"):
        answer = ask(web, f"/col/{HIDDEN}/{rest}", remote=remote)
        assert answer.status == 403, rest
        assert "Hidden" not in answer.text
        assert "Link" not in answer.headers
    for rest in ("", "metadata", *choices[: len(formats)]):
        assert status(web, HIDDEN, rest, INSIDE) == 200


@for_each(
    ("language", "reason", "contact"),
    [
        ("en", "read only from certain networks", "To ask for access, write to"),
        (
            "pt",
            "só podem ser acessados a partir de certas redes",
            "Para pedir acesso, escreva para",
        ),
        ("es", "solo se pueden leer desde determinadas redes", "Para solicitar acceso, escriba a"),
    ],
)
def test_the_url_of_a_closed_item_leads_to_its_landing_page(
    web_with: Callable[..., Flask], language: str, reason: str, contact: str
) -> None:
    app = web_with(IBI_ARCHIVE_ADMIN_EMAIL="library@example.org")
    local = ask(app, f"/{CLOSED}", remote=OUTSIDE).headers["Location"]
    assert ask_urls(app, CLOSED, user=OUTSIDE)["url"] == (local,)
    address = '<a href="mailto:library@example.org?subject=http%3A%2F%2Furlib.net%2F'
    headers = {"Accept-Language": language}
    closed = ask(app, f"/col/{CLOSED}/metadata", remote=OUTSIDE).headers["Location"]
    assert closed == f"http://mtc-m16c.sid.inpe.br/col/{CLOSED}/"
    for url in (closed, f"/col/{CLOSED}/"):
        text = follow(app, url, headers=headers, remote=OUTSIDE).text
        for part in ("<h1>Closed</h1>", reason, contact, address, 'class="ibi-citation"'):
            assert part in text, (url, part)
        assert "report.pdf" not in text
    page = follow(app, closed, remote=OUTSIDE)
    assert "metadata?choice=oai_dc" in page.text
    for rest in (FILE, "files"):
        assert address in ask(app, f"/col/{CLOSED}/{rest}", remote=OUTSIDE).text
    assert address not in ask(app, f"/col/{CLOSED}/", remote=INSIDE).text
    assert address not in ask(app, f"/col/{CLOSED}/metadata", remote=INSIDE).text
    hidden = ask(app, f"/col/{HIDDEN}/metadata", remote=OUTSIDE)
    assert address in hidden.text


@pytest.mark.rule("R72-27")
def test_a_url_list_leads_to_no_hidden_description(web: Flask) -> None:
    for verbs in ("GetMetadata", "GetMetadata(oai_dc)", "GetLastEdition GetMetadata", ""):
        pairs = ask_urls(web, HIDDEN, verbs, user=OUTSIDE)
        assert not [name for name in pairs if name.startswith(("url", "contenttype"))]
    assert "url.metadata" in ask_urls(web, HIDDEN, "GetMetadata", user=INSIDE)


def test_metadata_that_are_an_item_have_their_own_rule(web: Flask) -> None:
    for ibi in (WITH_CLOSED_METADATA, CLOSED_METADATA):
        for rest in ("metadata", "metadata?choice=oai_dc"):
            answer = ask(web, f"/col/{ibi}/{rest}", remote=OUTSIDE)
            assert answer.status == 403
            assert "page.html" not in answer.text
        assert status(web, ibi, "metadata", INSIDE) == 302
    for remote in (INSIDE, OUTSIDE):
        assert status(web, WITH_METADATA, "metadata", remote) == 302
        assert status(web, METADATA, "metadata", remote) == 302
        # the item's own files are open
        assert status(web, WITH_CLOSED_METADATA, "doc/new.txt", remote) == 200


@pytest.mark.rule("R72-27")
@for_each("user", [INSIDE, OUTSIDE])
@for_each("verbs", ["", "GetFileList", "GetMetadata"])
@for_each("ibi", [CLOSED, HIDDEN, HIDDEN_BARE, PLAIN_CLOSED, WITH_CLOSED_METADATA, REPORT])
def test_a_user_can_read_every_url_of_the_url_list_for_that_user(
    web: Flask, ibi: str, verbs: str, user: str
) -> None:
    pairs = ask_urls(web, ibi, verbs, user=user)
    for name, words in pairs.items():
        if name.startswith("url") and name != "urlkey":
            answer: Answer = follow(web, words[0], remote=user)
            assert answer.status in (200, 302)


# --- the user of a request through proxies


def forwarded(app: Flask, claim: str, remote: str) -> int:
    """Return the status of a restricted file for the user in X-Forwarded-For."""
    headers = {"X-Forwarded-For": claim}
    return ask(app, f"/col/{CLOSED}/{FILE}", headers=headers, remote=remote).status


def test_x_forwarded_for_is_ignored_without_trusted_proxies(web: Flask) -> None:
    assert forwarded(web, INSIDE, OUTSIDE) == 403
    assert forwarded(web, INSIDE, "127.0.0.1") == 403
    assert forwarded(web, OUTSIDE, INSIDE) == 200


@for_each(
    ("claim", "remote", "status"),
    [
        (INSIDE, PROXY, 200),
        (INSIDE, OUTSIDE, 403),
        (f"{INSIDE}, {OUTSIDE}", PROXY, 403),
        (f"{INSIDE}, {OUTSIDE}, {FAR_PROXY}", PROXY, 403),
        (f"[2001:db8::7]:99, {FAR_PROXY}:80", PROXY, 200),
        (f"{INSIDE}, unknown", PROXY, 403),
    ],
)
def test_x_forwarded_for_of_trusted_proxies_names_the_user(
    web_with: Callable[..., Flask], claim: str, remote: str, status: int
) -> None:
    app = web_with(IBI_TRUSTED_PROXIES=["10.0.0.0/8"])
    assert forwarded(app, claim, remote) == status


@for_each("name", ["Forwarded", "X-Real-IP", "Client-IP", "X-Client-IP", "True-Client-IP"])
def test_other_headers_do_not_name_the_user(web_with: Callable[..., Flask], name: str) -> None:
    app = web_with(IBI_TRUSTED_PROXIES="10.0.0.0/8")
    for value in (INSIDE, f"for={INSIDE}"):
        answer = ask(app, f"/col/{CLOSED}/{FILE}", headers={name: value}, remote=PROXY)
        assert answer.status == 403


def test_the_user_of_a_url_request_is_in_the_message_and_not_the_resolver(web: Flask) -> None:
    # the user is the first address in the pair; the resolver has the address of the connection
    assert ask_urls(web, CLOSED, user=INSIDE)["contenttype"] == ("Data",)
    assert ask_urls(web, CLOSED, user=f"{INSIDE} {OUTSIDE}")["contenttype"] == ("Data",)
    assert ask_urls(web, CLOSED, user=f"{OUTSIDE} {INSIDE}")["contenttype"] == ("Metadata",)
    assert "url" not in ask_urls(web, HIDDEN, user=OUTSIDE)


# --- unknown users


@pytest.fixture
def open_to_all_addresses(new_app: Callable[..., Flask], tmp_path: Path) -> Flask:
    """An app that trusts proxies, with items whose rules allow every address."""
    app = new_app(IBI_TRUSTED_PROXIES=["10.0.0.0/8"])
    archive_of(app).init()
    everybody = {"networks": ["0.0.0.0/0", "::/0"]}
    files = [{"path": "report.pdf", "source": source(tmp_path / "sources", "report.pdf")}]
    far = [{"path": "a", "url": "https://example.org/secret"}]
    secret = {**everybody, "others": "none"}
    import_records(archive_of(app), [
        {"rep": rep(1), "access": everybody, "files": files},
        {"rep": rep(2), "access": secret, "files": files},
        {"rep": rep(3), "metadata": {"ibi": rep(4)}, "files": files},
        {"rep": rep(4), "content_type": "Metadata", "access": secret, "files": far},
    ])  # fmt: skip
    return app


#: Values of X-Forwarded-For and addresses of the connection that do not identify the user.
UNREADABLE = [
    ("unknown", PROXY),
    ("", PROXY),
    ("0.0.0.0", PROXY),
    (INSIDE, None),
    (INSIDE, "unix:"),
]


@for_each(("claim", "remote"), UNREADABLE)
def test_an_unknown_user_is_outside_the_networks_of_every_rule(
    open_to_all_addresses: Flask, claim: str, remote: str | None
) -> None:
    def ask_for(ibi: str, rest: str) -> Answer:
        headers = {"X-Forwarded-For": claim}
        return ask(open_to_all_addresses, f"/col/{ibi}/{rest}", headers=headers, remote=remote)

    for ibi in (rep(1), rep(2)):
        for rest in (FILE, "files"):
            assert ask_for(ibi, rest).status == 403
    assert "report.pdf" not in ask_for(rep(1), "").text
    assert ask_for(rep(2), "").status == 403
    for ibi in (rep(3), rep(4)):
        answer = ask_for(ibi, "metadata")
        assert answer.status == 403
        assert "secret" not in answer.text + str(answer.headers)
    assert ask_for(rep(3), FILE).status == 200


@for_each("claim", ["unknown", f"{OUTSIDE}, unknown", ""])
def test_a_rule_that_allows_the_proxy_does_not_allow_unknown_users(
    web_with: Callable[..., Flask], claim: str
) -> None:
    proxy = "150.163.9.9"
    app = web_with(IBI_TRUSTED_PROXIES=["150.163.9.0/24"])
    assert forwarded(app, claim, proxy) == 403
    assert forwarded(app, INSIDE, proxy) == 200
