"""The bibliographic view of an item: the class :class:`Work`.

Citations, metadata formats and pages describe an item as a :class:`Work`. A work is made from the
record of the item and from the Dublin Core that describes the item. If the metadata are another
item, the Dublin Core is taken from this metadata item.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from flask_ibi_archive.core.identifiers.foreign import ForeignIdentifier, parse_foreign
from flask_ibi_archive.core.protocol.catalogue_items import is_closed
from flask_ibi_archive.core.records import description as model
from flask_ibi_archive.core.records import values
from flask_ibi_archive.core.records.record import ELEMENTS, DublinCore, DublinCoreMetadata, Record
from flask_ibi_archive.core.records.rich_text import to_plain
from flask_ibi_archive.errors import one_line

#: Who may read the files of a work: all readers, all from a day on, or some.
Access = Literal["open", "embargoed", "restricted"]


class WorkFile(Struct, frozen=True):
    """A file of a work.

    :param name: the path of the file within the item.
    :param url: the URL of the file.
    :param media_type: the media type such as ``application/pdf``, or None if unknown.
    :param size: the size in bytes, or None if unknown.
    :param sha256: the SHA-256 checksum in hexadecimal digits, or None if unknown.
    """

    name: str
    url: str
    media_type: str | None = None
    size: int | None = None
    sha256: str | None = None


class Work(model.Description, frozen=True, kw_only=True):
    """The bibliographic view of an item: a description, and what the Archive adds to it.

    :param ibi: the identifier that ``url`` contains.
    :param identifiers: all identifiers of the item.
    :param url: the persistent URL.
    :param page_url: the URL of the landing page.
    :param state: ``Original``, ``Copy`` or ``Deleted``.
    :param stated: the original description: with markup in the texts, and before ``complete()``.
    :param title: the first title with its subtitle, on one line. If the description states no
        title, a substitute.
    :param has_title: False if the description states no title.
    :param deposited: the timestamp of the item, or None.
    :param access: who may read the files; None if it is unknown, or if there are no files.
    :param available: the first day on which readers may read the files, if there is an embargo.
    :param language: the language of the work.
    :param metadata_language: the language of the metadata.
    :param doi: the DOI such as ``10.1000/182``, or None. A DOI in the Dublin Core is preferred to
        one in ``same_as``.
    :param same_as: the identifiers of the item in other systems, and its former addresses.
    :param next_edition: the persistent URL of the next edition.
    :param previous_edition: the persistent URL of the previous edition.
    :param translations: the languages and persistent URLs of the translations.
    :param translation_of: the persistent URL of the item of which the work is a translation.
    :param archive_name: the name of the repository, or None.
    :param dublin_core: all elements of the Dublin Core.
    """

    ibi: str
    identifiers: tuple[str, ...]
    url: str
    page_url: str
    state: str
    stated: model.Description
    title: str
    has_title: bool = True
    deposited: datetime | None = None
    access: Access | None = None
    available: date | None = None
    language: str | None = None
    metadata_language: str | None = None
    doi: str | None = None
    same_as: tuple[ForeignIdentifier, ...] = ()
    next_edition: str | None = None
    previous_edition: str | None = None
    translations: tuple[tuple[str, str], ...] = ()
    translation_of: str | None = None
    files: tuple[WorkFile, ...] = ()
    archive_name: str | None = None
    dublin_core: DublinCore = field(default_factory=dict)

    @property
    def title_language(self) -> str | None:
        """The language of the title, or None."""
        return self.titles[0].lang if self.titles else None

    @property
    def rich_title(self) -> str:
        """The title with its markup."""
        return self.stated.full_title or self.title

    @property
    def doi_url(self) -> str | None:
        """The DOI as a URL."""
        return None if self.doi is None else values.format_doi(self.doi)

    @property
    def same_as_uris(self) -> list[str]:
        """The URIs of the same item elsewhere: first that of the DOI, then those of ``same_as``."""
        others = [alias.url or alias.text for alias in self.same_as if not self.is_doi(alias)]
        return [*([] if self.doi_url is None else [self.doi_url]), *others]

    def is_doi(self, alias: ForeignIdentifier) -> bool:
        """Return whether an identifier in another system is the DOI of the work."""
        return alias.text.lower() == f"doi:{self.doi}".lower()

    @property
    def year(self) -> int | None:
        """The year of publication."""
        return None if self.issued is None else self.issued.year


def make_work(
    record: Record,
    dublin_core: DublinCore,
    persistent_url_base: str,
    *,
    description: model.Description | None = None,
    page_url: str | None = None,
    files: Iterable[WorkFile] = (),
    title: str | None = None,
    metadata_language: str | None = None,
    previous_edition: str | None = None,
    translation_of: str | None = None,
    archive_name: str | None = None,
    publisher: str | None = None,
    today: date | None = None,
) -> Work:
    """Return the bibliographic view of an item.

    :param record: the record of the item.
    :param dublin_core: the Dublin Core that describes the item; ``{}`` if there is none.
    :param persistent_url_base: the beginning of persistent URLs, such as ``http://urlib.net``.
    :param description: the description; None: it is read from the Dublin Core.
    :param page_url: the URL of the landing page; None: the persistent URL.
    :param files: the files that the reader may see.
    :param title: the title if the description has none; None: the identifier.
    :param metadata_language: the language of the metadata, if the metadata are an item.
    :param previous_edition: the identifier of the previous edition.
    :param translation_of: the identifier of the item of which the item is a translation.
    :param archive_name: the name of the repository.
    :param publisher: the publisher if the metadata state none; None: the publisher is unknown.
    :param today: the current day (UTC), on which the embargo depends; None: the access is unknown.
    """
    is_data = record.content_type == "Data"
    cleaned = clean_elements(dublin_core)
    stated = description or read_dublin_core(cleaned)
    described = model.make_plain(model.complete(stated))
    if publisher is not None and dublin_core and described.publisher is None:
        described = replace(described, publisher=publisher)
        cleaned["publisher"] = ((publisher, None),)
    for name in cleaned.keys() & {"title", "description"}:
        cleaned[name] = tuple((to_plain(text), language) for text, language in cleaned[name])
    ibi = record.ibip or record.identifiers[0]
    same_as = tuple(map(parse_foreign, record.same_as))
    identifiers = [text for text, _ in cleaned.get("identifier", ())]
    substitute = one_line(values.clean(title or "")) or ibi
    languages = (values.read_language(text) for text, _ in cleaned.get("language", ()))
    stated_language = next(filter(values.is_language_tag, languages), None)
    translations = (
        (language, f"{persistent_url_base}/{target}")
        for language, target in record.translations.items()
        if target != translation_of
    )

    def link(target: str | None) -> str | None:
        return None if target is None else f"{persistent_url_base}/{target}"

    return Work(
        **asdict(described),
        ibi=ibi,
        identifiers=record.identifiers,
        url=f"{persistent_url_base}/{ibi}",
        page_url=page_url or f"{persistent_url_base}/{ibi}",
        state=record.state,
        stated=stated,
        title=one_line(described.full_title) or substitute,
        has_title=bool(described.titles),
        deposited=record.timestamp,
        access=_find_access(record, today) if is_data and today else None,
        available=record.embargo,
        # the language of a metadata item is not that of the work that it describes
        language=(record.language if is_data else None) or stated_language,
        metadata_language=metadata_language if is_data else record.language,
        doi=next(filter(None, map(values.find_doi, [*identifiers, *record.same_as])), None),
        same_as=same_as,
        next_edition=link(record.next_edition),
        previous_edition=link(previous_edition),
        translations=tuple(translations),
        translation_of=link(translation_of),
        files=tuple(replace(file, name=values.clean(file.name)) for file in files),
        archive_name=archive_name,
        dublin_core=cleaned,
    )


def read_dublin_core(elements: DublinCore) -> model.Description:
    """Convert Dublin Core, which is free text, to a description, as far as this is certain."""
    stated = {name: [text for text, _ in elements.get(name, ())] for name in ELEMENTS}
    type_text, type = model.find_best_type(stated["type"])
    rights = [*stated["rights"], *(text for text in stated["relation"] if "/licenses/" in text)]
    numbers = stated["identifier"] + stated["source"]
    # other values of dc:source than titles
    others = (values.is_url, values.find_doi, values.find_issn, values.find_isbn)
    sources = [text for text in stated["source"] if not any(find(text) for find in others)]
    sources = sources[:1] if type in model.CONTAINED else []
    return model.Description(
        titles=tuple(model.Title(one_line(text), lang) for text, lang in elements.get("title", ())),
        creators=tuple(map(model.parse_name, stated["creator"])),
        contributors=tuple(map(model.parse_name, stated["contributor"])),
        type=type,
        type_text=type_text,
        publisher=next(map(one_line, stated["publisher"]), None),
        issued=values.find_issued(stated["date"]),
        container=model.parse_container(*sources) if sources else None,
        abstracts=elements.get("description", ()),
        subjects=tuple(model.Subject(*text) for text in elements.get("subject", ())),
        rights=tuple(text for text in elements.get("rights", ()) if not values.is_url(text[0])),
        licence_url=next(filter(None, map(values.find_licence, rights)), None),
        issn=next(filter(None, map(values.find_issn, numbers)), None),
        isbn=next(filter(None, map(values.find_isbn, numbers)), None),
        related=tuple(filter(None, map(_find_related, stated["relation"]))),
        funding=tuple(filter(None, map(model.parse_grant, stated["relation"]))),
    )


def find_year(metadata: DublinCoreMetadata) -> int | None:
    """Return the year of publication that metadata state, or None."""
    dates = (values.clean(text) for text, _ in metadata.elements.get("date", ()))
    issued = values.find_issued(dates)
    return None if issued is None else issued.year


def _find_access(record: Record, today: date) -> Access | None:
    """Return "restricted" with an access rule, else "embargoed" during an embargo, else "open".

    The result is None if the item has no files and neither a rule nor an embargo.
    """
    if record.access is not None:
        return "restricted"
    if is_closed(record.embargo, today):
        return "embargoed"
    return "open" if record.files else None


def clean_elements(
    elements: Mapping[str, Iterable[model.Text]],
) -> dict[str, tuple[model.Text, ...]]:
    """Remove empty values, illegal characters and wrong language tags from Dublin Core."""
    cleaned: dict[str, tuple[model.Text, ...]] = {}
    for name in ELEMENTS:
        for text, language in elements.get(name, ()):
            tag = language if language and values.is_language_tag(language) else None
            if text.strip():
                cleaned[name] = (*cleaned.get(name, ()), (values.clean(text), tag))
    return cleaned


def _find_related(text: str) -> model.RelatedWork | None:
    """Parse a URL or a DOI as a related work; None if the text is neither."""
    doi = values.find_doi(text)
    if doi is not None:
        return model.RelatedWork(f"doi:{doi}", "DOI", values.format_doi(doi))
    is_work = values.is_url(text) and "/licenses/" not in text
    return model.RelatedWork(text.strip(), "URL", text.strip()) if is_work else None
