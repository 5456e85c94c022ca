"""Two users and some publications, which :mod:`example_app.__main__` adds.

All persons, institutions, grants and results are invented. The ORCID is that of a fictitious person
whom ORCID uses in its documentation; the prefix 10.5555 is that of DOIs for examples.
"""

from __future__ import annotations

import re
import shutil
from datetime import date
from pathlib import Path
from typing import Any
from uuid import uuid4

from flask import current_app
from sqlalchemy import select

from example_app.extensions import db
from example_app.models import Publication, User

#: The files of the publications.
FILES = Path(__file__).parent / "seed_files"
#: The password of both users. Real users choose their own.
PASSWORD = "example"


def seed() -> None:
    """Add two users and some publications, unless there are publications already."""
    librarian, ana = get_user("librarian", is_librarian=True), get_user("ana")
    if db.session.scalar(select(Publication.id).limit(1)) is None:
        add_publications(librarian, ana)
    db.session.commit()


def get_user(name: str, *, is_librarian: bool = False) -> User:
    """Return the user with a name; add the user if there is none."""
    user = db.session.scalar(select(User).where(User.name == name))
    if user is None:
        user = User(name=name, is_librarian=is_librarian)
        user.set_password(PASSWORD)
        db.session.add(user)
    return user


UNIVERSITY = "Vale University"
AFFILIATION = f"{UNIVERSITY} https://ror.org/0va1ey030"
ANA = f"Silva, Ana; 0000-0002-1825-0097; {AFFILIATION}"
DAVI = f"Souza, Davi; 1234567890123456; {AFFILIATION}"
ABSTRACTS = {
    "en": "Twelve years of lidar measurements show how often ice clouds form over the Amazon "
    "basin, and how they change the balance of radiation.",
    "pt": "Doze anos de medidas de lidar mostram com que frequência nuvens de gelo se formam sobre "
    "a bacia amazônica, e como elas mudam o balanço de radiação.",
}
TITLE, TITLE_PT = "Ice clouds over the Amazon basin", "Nuvens de gelo sobre a bacia amazônica"
#: What the editions of the thesis and its translation have in common.
THESIS = {
    "kind": "Doctoral thesis",
    "authors": ANA,
    "publisher": UNIVERSITY,
    "advisor": DAVI,
    "committee": f"Costa, Rui; {AFFILIATION}\nLima, Eva; Serra University\nRocha, Noel",
    "level": "doctoral",
    "institution": AFFILIATION,
    "defended": date(2024, 3, 14),
    "subjects": "ice clouds [en]\nlidar [en]\nnuvens de gelo [pt]\nsensoriamento remoto [pt]",
    "licence": "CC-BY-4.0",
    "funding": "Vale Foundation; 2019/00123-4; Clouds over the forest",
    "related": "IsSupplementedBy doi:10.5555/12345678",
}


def add_publications(librarian: User, ana: User) -> None:
    """Add a thesis with two editions and a translation, an article, a data set and reports."""
    english = {
        **THESIS,
        "degree": "Doctorate in Remote Sensing",
        "programme": "Postgraduate Programme in Remote Sensing",
        "other_titles": f"{TITLE_PT} [pt]",
        "abstract": ABSTRACTS["en"],
        "other_abstracts": f"{ABSTRACTS['pt']} [pt]",
    }
    first = add_publication(ana, TITLE, 2024, "ice-clouds.pdf", **english)
    revised = {**english, "previous_edition": first, "old_links": "doi:10.5555/87654321"}
    second = add_publication(ana, f"{TITLE}, revised", 2025, "ice-clouds-revised.pdf", **revised)
    add_publication(
        ana,
        TITLE_PT,
        2025,
        "nuvens-de-gelo.pdf",
        **THESIS,
        language="pt",
        degree="Doutorado em Sensoriamento Remoto",
        programme="Programa de Pós-Graduação em Sensoriamento Remoto",
        abstract=ABSTRACTS["pt"],
        translation_of=second,
    )
    add_publication(
        librarian,
        "Annual report of the observatory",
        2025,
        "annual-report.pdf",
        publisher=UNIVERSITY,
        number="VO-2025-01",
        abstract="In 2025, the observatory measured on 351 days.",
        licence="CC-BY-4.0",
    )
    add_publication(
        librarian,
        "Calibration of the cloud lidar",
        2026,
        "lidar-calibration.pdf",
        kind="Article",
        journal="Journal of Invented Clouds",
        volume="3",
        issue="2",
        pages="7-18",
        abstract="The cloud lidar of the observatory was calibrated with the backscatter of clear "
        "air at night.",
        subjects="lidar [en]\ncalibration [en]",
        embargo=date(date.today().year + 1, 1, 1),
    )
    add_publication(
        librarian,
        "Rain gauges of the Vale, January and February 2024",
        2024,
        "rain-gauges.csv",
        kind="Dataset",
        publisher="Vale Observatory",
        abstract="Daily rain at one station, in millimetres.",
        subjects="rain [en]",
        licence="CC0-1.0",
        funding="Vale Foundation; 2021/00456-7",
    )
    add_publication(
        ana, "Measurements of the rainy season", 2026, "annual-report.pdf", status="draft"
    )
    withdrawn = add_publication(librarian, "Preliminary rain statistics", 2023, "annual-report.pdf")
    db.session.flush()
    withdrawn.status, withdrawn.reason = "withdrawn", "The data of March contain an error."


def add_publication(owner: User, title: str, year: int, file: str, **more: Any) -> Publication:
    """Add a publication with a file; by default, a public report."""
    suffix = Path(file).suffix
    name, stored = re.sub(r"\W+", "-", title) + suffix, f"{uuid4().hex}{suffix}"
    folder = Path(current_app.config["UPLOAD_FOLDER"])
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(FILES / file, folder / stored)
    values = {
        "status": "public",
        "kind": "Report",
        "authors": f"{DAVI}\n{ANA}",
        "language": "en",
        "files": {name: stored},
        **more,
    }
    publication = Publication(owner=owner, title=title, year=year, **values)
    db.session.add(publication)
    return publication
