"""The command ``flask seed``, which adds two users and some publications."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any
from uuid import uuid4

import click
from flask import current_app
from flask.cli import with_appcontext
from sqlalchemy import select

from example_app.extensions import db
from example_app.models import Publication, User

#: The password of both users. Real users choose their own.
PASSWORD = "example"


@click.command()
@with_appcontext
def seed() -> None:
    """Add two users and some publications, unless there are publications already.

    \b
    Example: flask --app example_app seed
    """
    librarian, ana = get_user("librarian", is_librarian=True), get_user("ana")
    if db.session.scalar(select(Publication.id).limit(1)) is None:
        add_publications(librarian, ana)
    db.session.commit()
    click.echo(f"users: librarian and ana, password: {PASSWORD}")


def get_user(name: str, *, is_librarian: bool = False) -> User:
    """Return the user with a name; add the user if there is none."""
    user = db.session.scalar(select(User).where(User.name == name))
    if user is None:
        user = User(name=name, is_librarian=is_librarian)
        user.set_password(PASSWORD)
        db.session.add(user)
    return user


def add_publications(librarian: User, ana: User) -> None:
    """Add a thesis with two editions and a translation, and four reports."""
    thesis = {
        "kind": "Thesis",
        "authors": "Silva, Ana",
        "advisor": "Souza, Davi",
        "abstract": "Twelve years of lidar measurements show how often ice clouds form over the "
        "Amazon basin, and how they change the balance of radiation.",
    }
    first = add_publication(ana, "Ice clouds over the Amazon basin", 2024, **thesis)
    second = add_publication(
        ana, "Ice clouds over the Amazon basin, revised", 2025, previous_edition=first, **thesis
    )
    thesis["abstract"] = (
        "Doze anos de medidas de lidar mostram com que frequência nuvens de gelo se formam sobre "
        "a bacia amazônica, e como elas mudam o balanço de radiação."
    )
    title = "Nuvens de gelo sobre a bacia amazônica"
    add_publication(ana, title, 2025, language="pt", translation_of=second, **thesis)
    add_publication(librarian, "Annual report of the observatory", 2025)
    next_year = date(date.today().year + 1, 1, 1)
    add_publication(librarian, "Calibration of the cloud lidar", 2026, embargo=next_year)
    add_publication(ana, "Measurements of the rainy season", 2026, status="draft")
    withdrawn = add_publication(librarian, "Preliminary rain statistics", 2023)
    db.session.flush()
    withdrawn.status, withdrawn.reason = "withdrawn", "The data of March contain an error."


def add_publication(owner: User, title: str, year: int, **more: Any) -> Publication:
    """Add a publication with a PDF file that contains the title; by default, a public report."""
    name, stored = re.sub(r"\W+", "-", title) + ".pdf", f"{uuid4().hex}.pdf"
    folder = Path(current_app.config["UPLOAD_FOLDER"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / stored).write_bytes(make_pdf(title))
    values = {
        "status": "public",
        "kind": "Report",
        "authors": "Souza, Davi\nSilva, Ana",
        "language": "en",
        "files": {name: stored},
        **more,
    }
    publication = Publication(owner=owner, title=title, year=year, **values)
    db.session.add(publication)
    return publication


def make_pdf(text: str) -> bytes:
    """Return a PDF file of one page with a line of text."""
    shown = text.encode("cp1252", "replace").hex()
    content = f"BT /F1 24 Tf 72 700 Td <{shown}> Tj ET"
    objects = (
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R "
        "/Resources << /Font << /F1 5 0 R >> >> >>",
        f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    )
    file = "%PDF-1.4\n"
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(file))
        file += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    return (
        f"{file}xref\n0 6\n0000000000 65535 f \n{table}"
        f"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n{len(file)}\n%%EOF\n"
    ).encode()
