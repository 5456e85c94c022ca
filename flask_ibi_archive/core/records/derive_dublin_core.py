"""The Dublin Core of a description: what fifteen elements of free text can say of it.

Source for grants: OpenAIRE Guidelines for Literature Repositories 3.0, "Project Identifier".
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from flask_ibi_archive.core.records.description import (
    CONTAINED,
    Container,
    Description,
    Grant,
    Text,
    WorkType,
)
from flask_ibi_archive.core.records.record import ELEMENTS, DublinCore, DublinCoreMetadata
from flask_ibi_archive.core.records.values import FUNDERS, GRANT_PREFIX

_ABBREVIATIONS = {name: abbreviation for abbreviation, name in FUNDERS.items()}


def describe_work(description: Description) -> DublinCoreMetadata:
    """Return the metadata that state a description, with its Dublin Core."""
    return DublinCoreMetadata(derive_dublin_core(description), description)


def derive_dublin_core(description: Description) -> DublinCore:
    """Return the Dublin Core of a description, in the order of the standard."""
    container = description.container
    is_contained = description.type in CONTAINED or container is not None
    numbers = [
        *(() if description.issn is None else [f"ISSN {description.issn}"]),
        *(() if description.isbn is None else [f"ISBN {description.isbn}"]),
    ]
    type = description.type_text or (
        None if description.type is WorkType.OTHER else description.type.value
    )
    issued = description.issued or (description.degree.defended if description.degree else None)
    values: dict[str, Iterable[Text]] = {
        "title": ((title.value, title.lang) for title in description.titles),
        "creator": _plain(name.inverted for name in description.creators),
        "subject": ((subject.value, subject.lang) for subject in description.subjects),
        "description": (*description.abstracts, *description.notes),
        "publisher": _plain([description.publisher]),
        "contributor": _plain(name.inverted for name in description.contributors),
        "date": _plain([issued.text if issued else None]),
        "type": _plain([type]),
        "format": _plain([description.extent]),
        # the ISSN and ISBN of what contains the work do not identify the work
        "identifier": _plain([*(() if is_contained else numbers), description.number]),
        "source": _plain(
            [
                format_container(container) if container else None,
                *(numbers if is_contained else ()),
            ]
        ),
        "relation": _plain(
            [
                *(related.url or related.identifier for related in description.related),
                *map(_format_grant, description.funding),
            ]
        ),
        "coverage": description.coverage,
        "rights": (*description.rights, *_plain([description.licence_url])),
    }
    elements = {name: tuple(values.get(name, ())) for name in ELEMENTS}
    return {name: texts for name, texts in elements.items() if texts}


def _plain(texts: Iterable[str | None]) -> list[Text]:
    """Return texts without a language; None is left out."""
    return [(text, None) for text in texts if text is not None]


def format_container(container: Container) -> str:
    """Return the container as ``Revista X, São Paulo, v. 2, n. 1, p. 7-18``."""
    parts = [
        container.title,
        container.place,
        container.volume and f"v. {container.volume}",
        container.number and f"n. {container.number}",
        container.pages and f"p. {container.pages}",
    ]
    return ", ".join(filter(None, parts))


def _format_grant(grant: Grant) -> str | None:
    """Return a grant as ``info:eu-repo/grantAgreement/EC/FP7/244909``; None without a number."""
    if grant.number is None:
        return None
    funder = _ABBREVIATIONS.get(grant.funder, grant.funder)
    parts = [
        funder,
        grant.programme or "",
        grant.number,
        *(["", grant.title] if grant.title else ()),
    ]
    return GRANT_PREFIX + "/".join(quote(part, safe=" ") for part in parts)
