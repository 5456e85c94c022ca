"""Access rules: every page and file applies them to the real address of the user."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from support.archives import archive_of, import_records, open_app
from support.web import (
    CLOSED,
    CLOSED_URL,
    HIDDEN,
    HIDDEN_BARE,
    INSIDE,
    OUTSIDE,
    PLAIN_CLOSED,
    REPORT,
    WITH_CLOSED_METADATA,
    Answer,
    ask,
    ask_urls,
    follow,
    rep,
    source,
)

PROXY = "10.0.0.1"
FILE = "doc/report.pdf"


def status(app: Flask, ibi: str, rest: str, remote: str | None) -> int:
    return ask(app, f"/col/{ibi}/{rest}", remote=remote).status


#: Addresses outside the networks of the rules, and addresses that are not known.
OUTSIDERS = [OUTSIDE, "2001:db9::1", "::ffff:1.2.3.4", None, "unix:"]


@pytest.mark.rule("R72-27")
def test_users_outside_the_networks_get_no_file(web: Flask) -> None:
    for remote in OUTSIDERS:
        for others in ["metadata", "none"]:
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


def test_the_url_of_a_closed_item_leads_to_its_landing_page(web_with: Callable[..., Flask]) -> None:
    reason, contact = "read only from certain networks", "To ask for access, write to"
    app = web_with(IBI_ARCHIVE_ADMIN_EMAIL="library@example.org")
    local = ask(app, f"/{CLOSED}", remote=OUTSIDE).headers["Location"]
    assert ask_urls(app, CLOSED, user=OUTSIDE)["url"] == (local,)
    address = '<a href="mailto:library@example.org?subject=http%3A%2F%2Furlib.net%2F'
    closed = ask(app, f"/col/{CLOSED}/metadata", remote=OUTSIDE).headers["Location"]
    assert closed == f"http://mtc-m16c.sid.inpe.br/col/{CLOSED}/"
    text = follow(app, closed, remote=OUTSIDE).text
    citation, formats = 'class="ibi-citation"', "metadata?choice=oai_dc"
    for part in ("<h1>Closed</h1>", reason, contact, address, citation, formats):
        assert part in text, part
    assert "report.pdf" not in text
    for ibi, rest in ((CLOSED, FILE), (CLOSED, "files"), (HIDDEN, "metadata")):
        assert address in ask(app, f"/col/{ibi}/{rest}", remote=OUTSIDE).text
    for rest in ("", "metadata"):
        assert address not in ask(app, f"/col/{CLOSED}/{rest}", remote=INSIDE).text


@pytest.mark.rule("R72-27")
def test_a_url_list_leads_to_no_hidden_description(web: Flask) -> None:
    for verbs in ("GetMetadata", "GetMetadata(oai_dc)", "GetLastEdition GetMetadata", ""):
        pairs = ask_urls(web, HIDDEN, verbs, user=OUTSIDE)
        assert not [name for name in pairs if name.startswith(("url", "contenttype"))]
    assert "url.metadata" in ask_urls(web, HIDDEN, "GetMetadata", user=INSIDE)


@pytest.mark.rule("R72-27")
def test_users_can_read_every_url_of_their_list(web: Flask) -> None:
    for user in [INSIDE, OUTSIDE]:
        for verbs in ["", "GetFileList", "GetMetadata"]:
            for ibi in [CLOSED, HIDDEN, HIDDEN_BARE, PLAIN_CLOSED, WITH_CLOSED_METADATA, REPORT]:
                pairs = ask_urls(web, ibi, verbs, user=user)
                for name, words in pairs.items():
                    if name.startswith("url") and name != "urlkey":
                        answer: Answer = follow(web, words[0], remote=user)
                        assert answer.status in (200, 302)


OTHER_HEADERS = ["Forwarded", "X-Real-IP", "Client-IP", "X-Client-IP", "True-Client-IP"]


def test_x_forwarded_for_of_trusted_proxies_names_the_user(web_with: Callable[..., Flask]) -> None:
    for proxies, claim, remote, expected in [
        # without trusted proxies, the header is ignored
        ((), INSIDE, OUTSIDE, 403),
        (("10.0.0.0/8",), INSIDE, PROXY, 200),
        # a rule that allows the proxy does not allow unknown users
        (("150.163.9.0/24",), f"{OUTSIDE}, unknown", "150.163.9.9", 403),
    ]:
        app = web_with(IBI_TRUSTED_PROXIES=[*proxies])
        headers = {"X-Forwarded-For": claim}
        assert ask(app, f"/col/{CLOSED}/{FILE}", headers=headers, remote=remote).status == expected
    app = web_with(IBI_TRUSTED_PROXIES=["10.0.0.0/8"])
    for name in OTHER_HEADERS:
        headers = {name: f"for={INSIDE}" if name == "Forwarded" else INSIDE}
        assert ask(app, f"/col/{CLOSED}/{FILE}", headers=headers, remote=PROXY).status == 403


def test_an_unknown_user_is_outside_the_networks_of_every_rule(
    backend: str, tmp_path: Path
) -> None:
    everybody = {"networks": ["0.0.0.0/0", "::/0"]}
    secret = {**everybody, "others": "none"}
    files = [{"path": "report.pdf", "source": source(tmp_path / "sources", "report.pdf")}]
    with open_app(backend, tmp_path, IBI_TRUSTED_PROXIES=["10.0.0.0/8"]) as app:
        import_records(archive_of(app), [
            {"rep": rep(1), "access": everybody, "files": files},
            {"rep": rep(2), "access": secret, "files": files},
            {"rep": rep(3), "metadata": {"ibi": rep(4)}, "files": files},
            {"rep": rep(4), "content_type": "Metadata", "access": secret},
        ])  # fmt: skip
        for claim, remote in (("unknown", PROXY), ("", PROXY), (INSIDE, None), (INSIDE, "unix:")):
            found = [
                ask(
                    app,
                    f"/col/{rep(number)}/{rest}",
                    headers={"X-Forwarded-For": claim},
                    remote=remote,
                ).status
                for rest in (FILE, "")
                for number in (1, 2, 3)
            ]
            assert found == [403, 403, 200, 200, 403, 200], (claim, remote)
