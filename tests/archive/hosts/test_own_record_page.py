"""A host's own page of an item has what ours has: the head, the headers, negotiation, and parts.

The view and the template are those of the page docs/howto/own-landing-page.rst.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import render_template
from jinja2 import DictLoader
from support.documentation import blocks
from support.host_app import Host, Thesis
from support.pages import Page
from support.web import Answer, ask

PAGE = "howto/own-landing-page.rst"
TITLE = "Rain <b>& wind</b>"
PLAIN = "Rain & wind"


@pytest.fixture
def host(new_host: Callable[..., Host]) -> Host:
    """A host with the page of the documentation, and with one row."""
    host = new_host()
    template = next(one.text for one in blocks(PAGE) if one.caption == "templates/thesis.html")
    host.app.jinja_loader = DictLoader({"thesis.html": template})
    view = next(one.text for one in blocks(PAGE) if "def show_thesis" in one.text)
    names: dict[str, Any] = {"app": host.app, "db": host.db, "ibi": host.ibi, "Thesis": Thesis}
    exec(view, {**names, "render_template": render_template})
    host.add(TITLE, language="en", pdf=host.write("report.txt", "The report"))
    return host


def find(host: Host) -> str:
    """Return the identifier of the row."""
    [item] = host.archive.find()
    host.session.rollback()
    return item.ibi


def see(host: Host, **headers: str) -> Answer:
    return ask(host.app, "/thesis/1", headers=headers)


def test_the_head_is_that_of_our_page(host: Host) -> None:
    own, ours = see(host), ask(host.app, f"/col/{find(host)}/")
    assert own.status == 200

    def list_head(answer: Answer) -> list[tuple[str, dict[str, str | None]]]:
        wanted = ("canonical", "cite-as", "describedby")
        return [
            (tag, attributes)
            for tag, attributes in Page(answer.text).tags
            if (tag == "meta" and "content" in attributes and attributes.get("name") != "viewport")
            or (tag == "link" and attributes["rel"] in wanted)
        ]  # fmt: skip

    assert list_head(own) == list_head(ours)
    assert ("meta", {"name": "citation_title", "content": PLAIN}) in list_head(own)
    assert "application/ld+json" in own.text
    assert own.headers["Link"] == ours.headers["Link"]


def test_programs_get_the_format_that_they_ask_for(host: Host) -> None:
    for accept, status, format in (
        ("*/*", 200, ""),
        ("application/x-bibtex", 303, "bibtex"),
        ("application/ld+json", 303, "json-ld"),
        ("audio/mpeg", 406, ""),
    ):
        answer = see(host, Accept=accept)
        assert answer.status == status
        end = f"metadata?choice={format}" if format else ""
        assert answer.headers.get("Location", "").endswith(end)
        assert "Accept" in answer.headers["Vary"]


def test_a_removed_item_has_its_tombstone(host: Host) -> None:
    with host.app.app_context():
        host.archive.without_session().delete(find(host), "withdrawn")
    answer = see(host)
    assert answer.status == 410
    assert "withdrawn" in answer.text


def test_a_page_about_no_item_stays_as_it_is(host: Host) -> None:
    with host.app.test_request_context():
        response = host.ibi.respond("8JMKD3MGP8W/34PGRBS", ("text", 201))
        assert (response.status_code, response.get_data(as_text=True)) == (201, "text")
        assert "Link" not in response.headers
        head = host.app.jinja_env.globals["ibi_head"]
        for item in ("8JMKD3MGP8W/34PGRBS", "no identifier", Thesis(title="A draft")):
            assert head(item) == ""  # type: ignore[operator]
