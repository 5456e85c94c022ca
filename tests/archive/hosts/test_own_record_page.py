"""A host's own page of an item has what ours has: the head, the headers, negotiation, and parts.

The view and the template are those of the page docs/howto/own-landing-page.rst.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import render_template
from jinja2 import DictLoader
from sqlalchemy import select
from sqlalchemy.orm import Mapped, mapped_column
from support.documentation import blocks
from support.host_app import HostApp
from support.pages import Page
from support.web import Answer, ask

from flask_ibi_archive import IdentifiedItem, ItemRecord

PAGE = "howto/own-landing-page.rst"
TITLE = "Rain <b>& wind</b>"


class Host(HostApp):
    def __init__(self, folder: Path) -> None:
        super().__init__(f"sqlite:///{folder / 'host.sqlite'}", folder)
        db = self.db

        class Thesis(IdentifiedItem, db.Model):  # type: ignore[name-defined, misc]
            id: Mapped[int] = mapped_column(primary_key=True)
            title: Mapped[str]

            def ibi_record(self) -> ItemRecord:
                path = folder / "report.txt"
                path.write_text("The report")
                return ItemRecord(
                    title=self.title, creators=["Silva, Ana"], language="en", files=[path]
                )

        self.model = Thesis
        template = next(one.text for one in blocks(PAGE) if one.caption == "templates/thesis.html")
        self.app.jinja_loader = DictLoader({"thesis.html": template})
        view = next(one.text for one in blocks(PAGE) if "def show_thesis" in one.text)
        names: dict[str, Any] = {"app": self.app, "db": db, "ibi": self.ibi, "Thesis": Thesis}
        exec(view, {**names, "render_template": render_template})
        self.archive.init()
        with self.app.app_context():
            db.create_all()
            db.session.add(Thesis(title=TITLE))
            db.session.commit()
            self.row_id, self.ibi_text = db.session.execute(select(Thesis.id, Thesis.ibi_rep)).one()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path)
    yield host
    host.close()


def see(host: Host, **headers: str) -> Answer:
    return ask(host.app, f"/thesis/{host.row_id}", headers=headers)


def test_the_head_is_that_of_our_page(host: Host) -> None:
    own, ours = see(host), ask(host.app, f"/col/{host.ibi_text}/")
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
    assert ("meta", {"name": "citation_title", "content": TITLE}) in list_head(own)
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
        host.archive.without_session().delete(host.ibi_text, "withdrawn")
    answer = see(host)
    assert answer.status == 410
    assert "withdrawn" in answer.text


def test_a_page_about_no_item_stays_as_it_is(host: Host) -> None:
    with host.app.test_request_context():
        response = host.ibi.respond("8JMKD3MGP8W/34PGRBS", ("text", 201))
        assert (response.status_code, response.get_data(as_text=True)) == (201, "text")
        assert "Link" not in response.headers
        head = host.app.jinja_env.globals["ibi_head"]
        for item in ("8JMKD3MGP8W/34PGRBS", "no identifier", host.model(title="A draft")):
            assert head(item) == ""  # type: ignore[operator]
