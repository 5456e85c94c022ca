"""The bibliographic description of a work: the classes, the JSON object, and the Dublin Core.

The JSON object is the field ``work`` of the metadata of a record. An error names the field, such as
``metadata.work.creators[0].orcid``.

Source for grants: OpenAIRE Guidelines for Literature Repositories 3.0, "Project Identifier".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import Any, Literal
from urllib.parse import quote, unquote

from msgspec import Struct, field
from msgspec.structs import asdict, replace
from stdnum import isbn

from flask_ibi_archive.core.identifiers.foreign import ForeignKind, parse_foreign
from flask_ibi_archive.core.identifiers.grammar import match_identifier
from flask_ibi_archive.core.records import values
from flask_ibi_archive.core.records.rich_text import to_plain
from flask_ibi_archive.core.records.values import FieldError, IssuedDate, Parsed, choose, wrong
from flask_ibi_archive.errors import IdentifierError, one_line
from flask_ibi_archive.errors import translatable as _

# --- work types --------------------------------------------------------------------------------


class WorkType(str, Enum):
    """The types of works that the metadata formats distinguish."""

    ARTICLE = "article"
    BACHELOR_THESIS = "bachelor thesis"
    BOOK = "book"
    CHAPTER = "chapter"
    COLLECTION = "collection"
    CONFERENCE_PAPER = "conference paper"
    DATASET = "dataset"
    DOCTORAL_THESIS = "doctoral thesis"
    IMAGE = "image"
    LECTURE = "lecture"
    MAP = "map"
    MASTER_THESIS = "master thesis"
    MUSIC = "music"
    OTHER = "other"
    PATENT = "patent"
    POSTER = "poster"
    PREPRINT = "preprint"
    PROCEEDINGS = "proceedings"
    REPORT = "report"
    REVIEW = "review"
    SOFTWARE = "software"
    SOUND = "sound"
    STANDARD = "standard"
    TEXT = "text"
    THESIS = "thesis"
    VIDEO = "video"

    @property
    def is_thesis(self) -> bool:
        """Whether the work is a thesis of any degree."""
        return self in THESES


THESES = frozenset(type for type in WorkType if type.value.endswith("thesis"))

#: The types of works that appear in a journal.
IN_JOURNALS = frozenset({WorkType.ARTICLE, WorkType.REVIEW})
#: The types of works that appear in a journal, in a book or in the proceedings of an event.
CONTAINED = IN_JOURNALS | {WorkType.CHAPTER, WorkType.CONFERENCE_PAPER, WorkType.POSTER}


def _read_types(table: str) -> dict[str, WorkType]:
    """Return a dictionary from the folded words of a table to the types that they mean."""
    return {values.fold(word): WorkType(type) for word, type in values.list_words(table).items()}


_TYPES = {values.fold(type.value): type for type in WorkType} | _read_types("types")
#: A URL or URI, of a vocabulary for example, and its last part.
_URI = re.compile(r"(?=(?:https?|info|urn):)\S*[/#:]([^/#:\s]+)[/#]?", re.IGNORECASE)


def find_type(text: str) -> WorkType | None:
    """Return the type that a value of dc:type means; None if the value is unknown.

    Words in parentheses may follow, as in ``Tese (Doutorado em Cardiologia)``. The value may also
    be a URI of a vocabulary, such as ``info:eu-repo/semantics/doctoralThesis``.
    """
    uri = _URI.fullmatch(text.strip())
    main, _, addition = (uri[1] if uri else text).partition("(")
    found = _TYPES.get(values.fold(main))
    if found in THESES:
        return next(
            (type for word, type in _DEGREES.items() if word in values.fold(addition)), found
        )
    return found


#: The words in parentheses that name the degree of a thesis.
_DEGREES = _read_types("degrees")


def find_best_type(texts: Iterable[str]) -> tuple[str | None, WorkType]:
    """Choose the most specific of several values of dc:type; return ``(words, type)``.

    Often there are several values, such as ``Text`` and ``info:eu-repo/semantics/article``. Between
    words and an equally specific URI, the words are chosen, because readers cannot read a URI.

    :returns: the chosen value and its type. If the value is a URI, the name of the type replaces
        it, or None if the type is unknown. (None, OTHER) if there is no value.
    """
    # specific types precede the type text, the type other, and unknown types
    ranks = {WorkType.TEXT: 1, WorkType.OTHER: 2, None: 3}
    found = [(text, find_type(text), bool(_URI.fullmatch(text.strip()))) for text in texts]
    found.sort(key=lambda value: (ranks.get(value[1], 0), value[2]))
    for text, type, is_uri in found[:1]:
        name_of_type = type.value if type else None
        return name_of_type if is_uri else text, type or WorkType.OTHER
    return None, WorkType.OTHER


def parse_type(field: str, value: Any) -> WorkType:
    """Parse the type of a work in words or as a URI."""
    text = values.parse_line_text(field, value)
    type = find_type(text)
    if type is None:
        types = [type.value for type in WorkType]
        reason = _(
            "is not a known type of works, such as {types}, nor a word for one in Portuguese, "
            "Spanish or of COAR{meant}",
            types=", ".join(types),
            meant=values.suggest(text, types),
        )
        raise wrong(field, text, reason)
    return type


# --- description -------------------------------------------------------------------------------


#: A value of a Dublin Core element or a text of a description, and its language, which may be None.
Text = tuple[str, "str | None"]
#: What a further title is. A translated title is one in another language.
TitleKind = Literal["alternative", "subtitle", "translated", "other"]
#: Whether a creator is one person, or a university, a committee, a project.
NameKind = Literal["person", "organisation"]
#: The levels of degrees.
DegreeLevel = Literal["bachelor", "specialist", "master", "doctoral", "postdoctoral"]
#: Who may read the files, as the description states it: the access rights of COAR.
AccessRight = Literal["open", "embargoed", "restricted", "metadata only"]
#: What a contributor did: the words of libraries for theses, and those of DataCite in plain words.
Role = Literal[
    "advisor", "co-advisor", "committee member", "editor", "translator", "illustrator", "reviewer",
    "contact person", "data collector", "data curator", "data manager", "distributor",
    "hosting institution", "producer", "project leader", "project manager", "project member",
    "registration agency", "registration authority", "related person", "research group",
    "researcher", "rights holder", "sponsor", "supervisor", "work package leader", "other",
]  # fmt: skip
#: The dates of DataCite other than the date of publication.
DATE_KINDS = tuple(values.VOCABULARIES["datacite"]["dates"])
#: How another work is related to this one, in the words of DataCite 4.6 (relationType).
RELATIONS = tuple(values.VOCABULARIES["datacite"]["relations"])
#: The kinds of identifiers of related works.
IdentifierKind = Literal["DOI", "Handle", "ARK", "IBI", "URN", "URL", "ISBN", "ISSN"]


#: A text on one line.
Line = Parsed[str, values.parse_line_text]
XmlText = Parsed[str, values.parse_xml_text]
LanguageTag = Parsed[str, values.parse_language_tag]
Ror = Parsed[str, values.parse_ror]
Issued = Parsed[IssuedDate, values.parse_issued]


def _parse_short(
    kind: type[Any], parse_text: Callable[[str, Any], str]
) -> Callable[[str, Any], Any]:
    """Return a parser for an object, or for a text that is short for an object with one field.

    :param kind: the class of the object. Its first field contains such a text.
    :param parse_text: parses such a text.
    """

    def parse(field: str, value: Any) -> Any:
        if isinstance(value, dict):
            return values.convert(field, value, kind)
        return kind(parse_text(field, value))

    return parse


class Title(Struct, frozen=True):
    """A title.

    :param value: the text, on one line.
    :param lang: the language tag, such as ``pt-BR``, or None.
    :param kind: what the title is; None for the first title.
    """

    value: Line
    lang: LanguageTag | None = None
    kind: Parsed[TitleKind, choose(TitleKind)] | None = None


class Subject(Struct, frozen=True):
    """A subject.

    :param value: the text.
    :param lang: the language tag, or None.
    :param scheme: the name of the vocabulary, such as ``CNPq``, ``LCSH`` or ``DDC``, or None.
    :param uri: the URI of the subject in the vocabulary, or None.
    """

    value: XmlText
    lang: LanguageTag | None = None
    scheme: Line | None = None
    uri: Parsed[str, values.parse_http_url] | None = None


class _TextObject(Struct, frozen=True):
    """The object with a text and a language, as which JSON writes a :data:`Text`."""

    value: XmlText
    lang: LanguageTag | None = None


def parse_text(field: str, value: Any) -> Text:
    """Parse a text, or an object that contains a text and the language of the text."""
    if not isinstance(value, dict):
        return values.parse_xml_text(field, value), None
    text = values.convert(field, value, _TextObject)
    return text.value, text.lang


def _parse_rights(field: str, value: Any) -> Text:
    text, language = parse_text(field, value)
    if values.is_url(text):
        raise wrong(field, text, _("is a URL; write the URL of a licence as licence"))
    return text, language


class Organisation(Struct, frozen=True):
    """An organisation.

    :param name: the name.
    :param ror: the identifier in the Research Organization Registry as a URL, such as
        ``https://ror.org/04xbn6x09``, or None.
    """

    name: Line
    ror: Ror | None = None


Affiliation = Parsed[Organisation, _parse_short(Organisation, values.parse_line_text)]


class Name(Struct, frozen=True):
    """A creator or contributor.

    :param family: the family name of a person; or the complete name of an organisation, or of a
        person whose name is not divided.
    :param given: the given names of a person, or None.
    :param orcid: the ORCID of a person, such as ``0000-0002-1825-0097``, or None.
    :param kind: "person" or "organisation"; None if it is not stated.
    :param lattes: the number of the person's Curriculum Lattes, 16 digits, or None.
    :param ror: the identifier of an organisation as in :class:`Organisation`, or None.
    :param role: what a contributor did; None for a creator.
    """

    family: str
    given: str | None = None
    orcid: str | None = None
    kind: NameKind | None = None
    lattes: str | None = None
    ror: str | None = None
    affiliations: tuple[Organisation, ...] = ()
    role: Role | None = None

    @property
    def is_person(self) -> bool:
        """Whether the name is certainly the name of a person."""
        return self.kind == "person" or self.given is not None or self.orcid is not None

    @property
    def orcid_url(self) -> str | None:
        """The ORCID as a URL."""
        return None if self.orcid is None else f"https://orcid.org/{self.orcid}"

    @property
    def lattes_url(self) -> str | None:
        """The URL of the person's Curriculum Lattes."""
        return None if self.lattes is None else f"http://lattes.cnpq.br/{self.lattes}"

    @property
    def inverted(self) -> str:
        """The name as catalogues write it, such as ``Silva, Ana``."""
        return self.family if self.given is None else f"{self.family}, {self.given}"

    @property
    def parts(self) -> tuple[str, str, str]:
        """``(family, given, suffix)``; a missing part is "". The suffix is such as ``Jr.``."""
        given, _, suffix = (self.given or "").partition(", ")
        return self.family, given, suffix

    @property
    def direct(self) -> str:
        """The name as sentences contain it, such as ``Ana Silva`` or ``José Silva Jr.``."""
        family, given, suffix = self.parts
        return " ".join(filter(None, (given, family, suffix)))


def parse_name(text: str) -> Name:
    """Parse a name. ``Silva, Ana`` is divided; a name without a comma becomes the family name.

    ``Souza, Davi, Filho`` is ``Souza Filho, Davi``. The name may contain an ORCID, as in
    ``Silva, Ana (0000-0002-1825-0097)``.
    """
    text = one_line(text)
    found = values.ORCID.search(text)
    rest = values.ORCID.sub(" ", text).replace(" ,", ",").strip(",; ")
    orcid = None
    if found is not None and rest:
        text = rest
        orcid = values.check_orcid(found)
    text = text.strip(", ")
    family, _, given = (part.strip() for part in text.partition(","))
    first, _, suffix = (part.strip() for part in given.partition(","))
    if first and KINSHIP.fullmatch(suffix):
        family, given = f"{family} {suffix}", first
    return Name(family, given, orcid) if given else Name(text or "?", None, orcid)


#: The words of kinship, which belong to the surname in front of them.
KINSHIP = re.compile(r"(filho|netto|neto|j[uú]nior|sobrinho)", re.IGNORECASE)


class _CreatorObject(Struct, frozen=True):
    """The JSON object of a :class:`Name`."""

    name: Line
    kind: Parsed[NameKind, choose(NameKind)] | None = None
    orcid: Parsed[str, values.parse_orcid] | None = None
    lattes: Parsed[str, values.parse_lattes] | None = None
    ror: Ror | None = None
    affiliations: tuple[Affiliation, ...] = ()


class _ContributorObject(_CreatorObject, frozen=True):
    role: Parsed[Role, choose(Role)] | None = None


def parse_creator(field: str, value: Any, kind: type[_CreatorObject] = _CreatorObject) -> Name:
    """Parse a name: a text, which may contain an ORCID, or an object."""
    if not isinstance(value, dict):
        return _read_name(field, values.parse_line_text(field, value))
    stated = values.convert(field, value, kind)
    members = {name: member for name, member in asdict(stated).items() if member is not None}
    text = members.pop("name")
    if stated.kind != "organisation" and stated.ror is None:
        return replace(_read_name(values.join_names(field, "name"), text), **members)
    for name in {"orcid", "lattes"} & members.keys():
        reason = "only a person has this; the name is an organisation's"
        raise FieldError(values.join_names(field, name), reason)
    if stated.kind == "person":
        reason = "only an organisation has a ROR; write it in affiliations"
        raise FieldError(values.join_names(field, "ror"), reason)
    return Name(text, **members)


#: Parses the name of a contributor, which may have a role.
parse_contributor: Callable[..., Name] = partial(parse_creator, kind=_ContributorObject)


def _read_name(field: str, text: str) -> Name:
    """Parse the text of a name, which may contain an ORCID."""
    name = parse_name(text)
    if not any(map(str.isalnum, name.inverted)):
        raise wrong(field, text, _("is not a name such as Silva, Ana"))
    if name.orcid is None and values.ORCID.search(text):
        raise wrong(field, text, _("contains an ORCID whose check digit is wrong"))
    return name


class Degree(Struct, frozen=True):
    """The degree for which a thesis was written.

    :param name: the name of the degree, such as ``Doutorado em Sensoriamento Remoto``, or None.
    :param programme: the postgraduate programme, or None.
    :param institution: the institution that grants the degree, or None.
    :param defended: the date of the defence, or None.
    """

    name: Line | None = None
    level: Parsed[DegreeLevel, choose(DegreeLevel)] | None = None
    programme: Line | None = None
    institution: Affiliation | None = None
    defended: Issued | None = None


def _parse_degree(field: str, value: Any) -> Degree:
    if value == {}:
        raise FieldError(field, "the object is empty; omit the field instead")
    return values.convert(field, value, Degree)


def _parse_pages(field: str, value: Any) -> str:
    return re.sub(r"\s*[-–—][-–—\s]*", "-", values.parse_line_text(field, value))


class Container(Struct, frozen=True):
    """The journal, book or event that contains a work.

    :param title: the title of the journal or book, or the name of the event.
    :param place: the place of publication, or None.
    :param number: the issue, or None.
    :param pages: the pages, such as ``7-18``, or None.
    """

    title: Line
    place: Line | None = None
    volume: Line | None = None
    number: Line | None = None
    pages: Parsed[str, _parse_pages] | None = None

    @property
    def first_page(self) -> str | None:
        """The first page."""
        return None if self.pages is None else self.pages.partition("-")[0]

    @property
    def last_page(self) -> str | None:
        """The last page; None if there is only one."""
        return None if self.pages is None else self.pages.partition("-")[2] or None


_VOLUME = re.compile(r"\b(?:v|vol|volume)\b\.?\s*([0-9]+[A-Za-z]?|[IVXLCDM]+)\b", re.IGNORECASE)
_NUMBER = re.compile(
    r"\b(?:n|no|nr|num|number|issue|numero|número)\b[.º°]*\s*([0-9]+(?:[-/][0-9]+)?)", re.IGNORECASE
)
_PAGES = re.compile(
    r"\b(?:p|pp|pages|páginas|paginas)\b\.?\s*([A-Za-z]?[0-9]+(?:\s*[-–]+\s*[A-Za-z]?[0-9]+)?)",
    re.IGNORECASE,
)
_FINAL_PAGES = re.compile(r"[;,:]\s*([0-9]+\s*[-–]+\s*[0-9]+)\s*\.?\Z")


def parse_container(text: str) -> Container:
    """Parse a value of dc:source such as ``Revista X, São Paulo, v. 2, n. 1, p. 7-18, 2004``.

    Open Journal Systems writes ``Revista X; v. 2 n. 1 (2004): Rain; 7-18``.
    """
    text = one_line(text)
    volume, number = _VOLUME.search(text), _NUMBER.search(text)
    pages = _PAGES.search(text) or _FINAL_PAGES.search(text)
    starts = [found.start() for found in (volume, number, pages) if found is not None]
    title = text[: min(starts)].rstrip(" ;,.:(") if starts else text
    title, place = title or text, None
    if starts and "," in title and ";" not in title:
        title, _, place = (part.strip() for part in title.rpartition(","))
    return Container(
        title,
        place or None,
        *(
            None if found is None else re.sub(r"\s*[-–]+\s*", "-", found[1])
            for found in (volume, number, pages)
        ),
    )


class Grant(Struct, frozen=True):
    """A grant that paid for a work.

    :param funder: the name of the funder, which may be an abbreviation.
    :param number: the number of the grant, or None.
    :param title: the title or the acronym of the project, or None.
    :param funder_id: the identifier of the funder as a URL: of ROR, or of the Crossref Funder
        Registry (``https://doi.org/10.13039/501100001807``); or None.
    :param programme: the funding programme, such as ``FP7``, or None.
    :param url: the page of the grant, or None.
    """

    funder: Line
    number: Line | None = None
    title: Line | None = None
    funder_id: Parsed[str, values.parse_funder_id] | None = None
    programme: Line | None = None
    url: Parsed[str, values.parse_http_url] | None = None


class RelatedWork(Struct, frozen=True):
    """Another work.

    :param identifier: the identifier in canonical form: ``doi:10.1000/182``, ``hdl:20.500/1``,
        ``ark:12345/x``, ``urn:...``, an IBI, a URL, or the digits of an ISBN or ISSN.
    :param kind: the kind of the identifier.
    :param url: the address of the work; None for an ISBN, an ISSN and an IBI.
    :param relation: how the other work is related to this one; None if it is not stated.
    """

    identifier: str
    kind: IdentifierKind
    url: str | None = None
    relation: str | None = None


#: The kinds of identifiers in other systems.
FOREIGN_KINDS: dict[ForeignKind, IdentifierKind] = {
    ForeignKind.DOI: "DOI",
    ForeignKind.HANDLE: "Handle",
    ForeignKind.ARK: "ARK",
    ForeignKind.URN: "URN",
    ForeignKind.ADDRESS: "URL",
}


def find_related_work(field: str, value: Any) -> RelatedWork:
    """Parse the identifier of another work, and find the kind of the identifier."""
    text = values.parse_line_text(field, value)
    if (ibi := match_identifier(text)) is not None:
        return RelatedWork(ibi.text, "IBI")
    is_urn = text.lower().startswith("urn:")
    if not is_urn and values.ISSN.fullmatch(text):
        return RelatedWork(values.parse_issn(field, text), "ISSN")
    if not is_urn and values.ISBN.fullmatch(text):
        return RelatedWork(isbn.compact(values.parse_isbn(field, text)), "ISBN")
    try:
        foreign = parse_foreign(text)
    except IdentifierError as error:
        if text.lower().startswith(("http:", "https:")):
            raise FieldError(field, error.args[0]) from None
        reason = _(
            "is not an identifier: write a DOI, Handle, ARK, URN, IBI, ISBN, ISSN or an http or "
            "https URL"
        )
        raise wrong(field, text, reason) from None
    return RelatedWork(foreign.text, FOREIGN_KINDS[foreign.kind], foreign.url)


class _RelatedObject(Struct, frozen=True):
    """The JSON object of a :class:`RelatedWork`."""

    identifier: Parsed[RelatedWork, find_related_work]
    relation: Parsed[str, partial(values.parse_choice, choices=RELATIONS)] | None = None


def parse_related(field: str, value: Any) -> RelatedWork:
    """Parse the identifier of another work, or an object that also says the relation to it."""
    if not isinstance(value, dict):
        return find_related_work(field, value)
    stated = values.convert(field, value, _RelatedObject)
    return replace(stated.identifier, relation=stated.relation)


def _parse_dates(field: str, value: Any) -> Mapping[str, IssuedDate]:
    stated = values.check_object(field, value, DATE_KINDS)
    return {
        kind: values.parse_issued(values.join_names(field, kind), stated[kind])
        for kind in DATE_KINDS
        if kind in stated
    }


class Description(Struct, frozen=True, rename={"licence_url": "licence"}):
    """A bibliographic description.

    All texts contain only characters that XML allows. Languages are language tags such as
    ``pt-BR``, or None.

    :param titles: the titles; the first one is the title of the work.
    :param creators: the authors.
    :param type_text: the type in the words of the author of the description. If the author stated a
        URI, the name of the type. Otherwise None.
    :param publisher: the publisher, or None. The text may begin with a place (``Place: Name``).
    :param place: the place of publication, or None.
    :param issued: the date of publication, or None.
    :param dates: other dates, by kind.
    :param abstracts: the abstracts.
    :param rights: statements about rights that are not a URL.
    :param licence_url: the URL of the licence, or None.
    :param access_right: who may read the files, or None if it is not stated.
    :param issn: the ISSN of the work, or of the journal that contains it; or None.
    :param isbn: the ISBN of the work, or of the book that contains it; or None.
    :param number: the number of a report or of a patent, or None.
    :param version: the version of software or of data, or the edition of a book, or None.
    :param extent: the size, such as ``171 p.``, or None.
    :param coverage: places and periods that the work is about.
    :param notes: further remarks.
    :param related: other works.
    :param funding: the grants that paid for the work.
    """

    titles: tuple[Parsed[Title, _parse_short(Title, values.parse_line_text)], ...] = ()
    creators: tuple[Parsed[Name, parse_creator], ...] = ()
    contributors: tuple[Parsed[Name, parse_contributor], ...] = ()
    type: Parsed[WorkType, parse_type] = WorkType.OTHER
    type_text: str | None = None
    publisher: Line | None = None
    place: Line | None = None
    issued: Issued | None = None
    dates: Parsed[Mapping[str, IssuedDate], _parse_dates] = field(default_factory=dict)
    degree: Parsed[Degree, _parse_degree] | None = None
    container: Parsed[Container, values.convert_to(Container)] | None = None
    abstracts: tuple[Parsed[Text, parse_text], ...] = ()
    subjects: tuple[Parsed[Subject, _parse_short(Subject, values.parse_xml_text)], ...] = ()
    rights: tuple[Parsed[Text, _parse_rights], ...] = ()
    licence_url: Parsed[str, values.parse_licence] | None = None
    access_right: Parsed[AccessRight, choose(AccessRight)] | None = None
    issn: Parsed[str, values.parse_issn] | None = None
    isbn: Parsed[str, values.parse_isbn] | None = None
    number: Line | None = None
    version: Line | None = None
    extent: Line | None = None
    coverage: tuple[Parsed[Text, parse_text], ...] = ()
    notes: tuple[Parsed[Text, parse_text], ...] = ()
    related: tuple[Parsed[RelatedWork, parse_related], ...] = ()
    funding: tuple[Parsed[Grant, values.convert_to(Grant)], ...] = ()

    @property
    def is_contained(self) -> bool:
        """Whether the work appears in a journal, in a book or in the proceedings of an event."""
        return self.type in CONTAINED or self.container is not None

    @property
    def subtitle(self) -> Title | None:
        """The subtitle of the first title, in the same language; or None."""
        return next(filter(self._is_subtitle, self.titles[1:]), None)

    def _is_subtitle(self, title: Title) -> bool:
        languages = {one.lang and one.lang[:2] for one in (self.titles[0], title)} - {None}
        return title.kind == "subtitle" and len(languages) < 2

    @property
    def other_titles(self) -> tuple[Title, ...]:
        """The titles after the first one and its subtitle."""
        return tuple(title for title in self.titles[1:] if title is not self.subtitle)

    @property
    def full_title(self) -> str:
        """The first title with its subtitle; "" if there is no title.

        A colon separates them, unless the title ends in punctuation.
        """
        title = self.titles[0].value if self.titles else ""
        subtitle = self.subtitle.value.lstrip(": ") if self.subtitle else ""
        plain, rest = to_plain(title).casefold(), to_plain(subtitle).casefold()
        if not rest or plain.endswith(f": {rest}"):
            return title
        return f"{title}{'' if plain.endswith(_PUNCTUATION) else ':'} {subtitle}"

    @property
    def imprint(self) -> tuple[str | None, str | None]:
        """``(place, name)`` of the publisher; each of them is None if it is unknown.

        The place may be part of ``publisher``, as in ``São José dos Campos: INPE``.
        """
        place, _, name = (part.strip() for part in (self.publisher or "").partition(": "))
        return (self.place or place, name) if place and name else (self.place, self.publisher)

    @property
    def institution(self) -> str | None:
        """The institution that grants the degree, otherwise the publisher; or None."""
        granting = self.degree and self.degree.institution
        return granting.name if granting else self.imprint[1]

    def find_contributors(self, *roles: Role | None) -> list[Name]:
        """Return the contributors who have one of some roles."""
        return [name for name in self.contributors if name.role in roles]


#: What a title may end with instead of a colon in front of its subtitle.
_PUNCTUATION = tuple(".:;?!…–—")


def complete(description: Description) -> Description:
    """Fill missing fields of the description of a thesis from the degree of the thesis.

    The date becomes the day of the defence, the publisher becomes the institution that grants the
    degree, and the level of the degree determines the type.
    """
    degree, type = description.degree, description.type
    if degree is None:
        return description
    if type is WorkType.THESIS or (type is WorkType.OTHER and description.type_text is None):
        words = values.fold(f"{degree.level} {degree.name}")
        found = (type for word, type in _DEGREES.items() if word in words)
        is_higher = degree.level == "postdoctoral"
        type = WorkType.THESIS if is_higher else next(found, WorkType.THESIS)
    granting = degree.institution and degree.institution.name
    return replace(
        description,
        type=type,
        issued=description.issued or degree.defended,
        publisher=description.publisher or granting,
    )


def make_plain(description: Description) -> Description:
    """Return a description without markup in its titles and abstracts."""
    container = description.container
    return replace(
        description,
        titles=tuple(replace(one, value=to_plain(one.value)) for one in description.titles),
        abstracts=tuple((to_plain(text), language) for text, language in description.abstracts),
        container=container and replace(container, title=to_plain(container.title)),
    )


#: The names of the fields of the JSON object.
WORK_FIELDS = tuple(name for name in Description.__struct_encode_fields__ if name != "type_text")


def parse_description(field: str, value: Any) -> Description:
    """Parse a description.

    :param field: the name of the field, which messages contain.
    :param value: the JSON object.
    :raises FieldError: if a field is wrong, or if there is no title.
    """
    description = parse_work_fields(field, value)
    if not description.titles:
        is_missing = "titles" not in value
        what = _("the field is missing") if is_missing else "the list is empty"
        reason = _("{what}; a work needs a title", what=what)
        raise FieldError(values.join_names(field, "titles"), reason)
    return description


def parse_work_fields(field: str, value: Any) -> Description:
    """Parse a description as :func:`parse_description` does, but do not require a title."""
    stated = values.check_object(field, value, WORK_FIELDS)
    description = values.convert(field, stated, Description)
    if "type" not in stated:
        return description
    return replace(description, type_text=find_best_type([one_line(stated["type"])])[0])


# --- Dublin Core ---------------------------------------------------------------------------------


def parse_grant(text: str) -> Grant | None:
    """Parse a value such as ``info:eu-repo/grantAgreement/EC/FP7/244909``.

    The parts after the prefix are the funder, the programme, and the number; they may be followed
    by the jurisdiction, the title and the acronym of the project. %XX replaces a "/" in a part.

    :returns: the grant; None if the value is not a grant.
    """
    prefix, rest = text.strip()[: len(GRANT_PREFIX)], text.strip()[len(GRANT_PREFIX) :]
    parts = [unquote(part).strip() for part in rest.split("/")]
    if prefix.lower() != GRANT_PREFIX.lower() or len(parts) < 3 or not (parts[0] and parts[2]):
        return None
    title = next(filter(None, parts[4:6]), None)
    return Grant(FUNDERS.get(parts[0], parts[0]), parts[2], title, programme=parts[1] or None)


#: The beginning of a value of dc:relation that states a grant.
GRANT_PREFIX = "info:eu-repo/grantAgreement/"
#: The names of funders that metadata abbreviate.
FUNDERS = {"EC": "European Commission"}


_ABBREVIATIONS = {name: abbreviation for abbreviation, name in FUNDERS.items()}


def derive_dublin_core(description: Description) -> Mapping[str, tuple[Text, ...]]:
    """Return the Dublin Core of a description, in the order of the standard."""
    description = make_plain(complete(description))
    container, date = description.container, description.issued
    others = ((title.value, title.lang) for title in description.other_titles)
    titles = [(description.full_title, title.lang) for title in description.titles[:1]]
    numbers = [
        description.issn and f"ISSN {description.issn}",
        description.isbn and f"ISBN {description.isbn}",
    ]
    # the ISSN and ISBN of what contains the work do not identify the work
    outer, own = (numbers, []) if description.is_contained else ([], numbers)
    general = None if description.type is WorkType.OTHER else description.type.value
    related = [other.url or other.identifier for other in description.related]
    elements: dict[str, Iterable[Text]] = {
        "title": (*titles, *others),
        "creator": _plain(name.inverted for name in description.creators),
        "subject": ((subject.value, subject.lang) for subject in description.subjects),
        "description": (*description.abstracts, *description.notes),
        "publisher": _plain([description.publisher]),
        "contributor": _plain(name.inverted for name in description.contributors),
        "date": _plain([date.text if date else None]),
        "type": _plain([description.type_text or general]),
        "format": _plain([description.extent]),
        "identifier": _plain([*own, description.number]),
        "source": _plain([format_container(container) if container else None, *outer]),
        "relation": _plain([*related, *map(_format_grant, description.funding)]),
        "coverage": description.coverage,
        "rights": (*description.rights, *_plain([description.licence_url])),
    }
    return {name: found for name, texts in elements.items() if (found := tuple(texts))}


def _plain(texts: Iterable[str | None]) -> list[Text]:
    """Return each text as a :data:`Text` whose language is unknown; None is left out."""
    return [(text, None) for text in texts if text is not None]


def format_container(container: Container) -> str:
    """Return a text such as ``Revista X, São Paulo, v. 2, n. 1, p. 7-18``."""
    numbers = (("v.", container.volume), ("n.", container.number), ("p.", container.pages))
    parts = [f"{name} {number}" for name, number in numbers if number]
    return ", ".join(filter(None, (container.title, container.place, *parts)))


def _format_grant(grant: Grant) -> str | None:
    """Return a grant as ``info:eu-repo/grantAgreement/EC/FP7/244909``; None without a number."""
    if grant.number is None:
        return None
    funder = _ABBREVIATIONS.get(grant.funder, grant.funder)
    parts = [funder, grant.programme or "", grant.number]
    parts += ["", grant.title] if grant.title else []
    return GRANT_PREFIX + "/".join(quote(part, safe=" ") for part in parts)
