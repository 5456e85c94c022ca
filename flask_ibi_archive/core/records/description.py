"""The classes of a bibliographic description: creators, degree, journal, grants, licence.

The model is that of the DataCite Metadata Schema 4.6, with the degree of a thesis and the journal
of an article, for which libraries have more to say. The fields have the same names in the JSON of
records (``{"metadata": {"work": {...}}}``). All fields are optional except the title.

A description may also be read from Dublin Core, see
:func:`flask_ibi_archive.core.records.work.read_dublin_core`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from flask_ibi_archive.core.records.work_types import WorkType

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
DateKind = Literal[
    "accepted", "available", "collected", "copyrighted", "created", "submitted", "updated",
    "valid", "withdrawn", "other",
]  # fmt: skip
#: How another work is related to this one, in the words of DataCite 4.6 (relationType).
Relation = Literal[
    "IsCitedBy", "Cites", "IsCollectedBy", "Collects", "IsSupplementTo", "IsSupplementedBy",
    "IsContinuedBy", "Continues", "IsDescribedBy", "Describes", "HasMetadata", "IsMetadataFor",
    "HasVersion", "IsVersionOf", "IsNewVersionOf", "IsPreviousVersionOf", "IsPartOf", "HasPart",
    "IsPublishedIn", "IsReferencedBy", "References", "IsDocumentedBy", "Documents",
    "IsCompiledBy", "Compiles", "IsVariantFormOf", "IsOriginalFormOf", "IsIdenticalTo",
    "IsReviewedBy", "Reviews", "IsDerivedFrom", "IsSourceOf", "IsRequiredBy", "Requires",
    "Obsoletes", "IsObsoletedBy", "IsTranslationOf", "HasTranslation",
]  # fmt: skip
#: The kinds of identifiers of related works.
IdentifierKind = Literal["DOI", "Handle", "ARK", "IBI", "URN", "URL", "ISBN", "ISSN"]


@dataclass(frozen=True, slots=True)
class Title:
    """A title.

    :param value: the text, on one line.
    :param lang: the language tag, such as ``pt-BR``, or None.
    :param kind: what the title is; None for the first title.
    """

    value: str
    lang: str | None = None
    kind: TitleKind | None = None


class Subject(NamedTuple):
    """A subject.

    :param value: the text.
    :param lang: the language tag, or None.
    :param scheme: the name of the vocabulary, such as ``CNPq``, ``LCSH`` or ``DDC``, or None.
    :param uri: the URI of the subject in the vocabulary, or None.
    """

    value: str
    lang: str | None = None
    scheme: str | None = None
    uri: str | None = None


@dataclass(frozen=True, slots=True)
class Organisation:
    """An organisation.

    :param name: the name.
    :param ror: the identifier in the Research Organization Registry as a URL, such as
        ``https://ror.org/04xbn6x09``, or None.
    """

    name: str
    ror: str | None = None


@dataclass(frozen=True, slots=True)
class Name:
    """A creator or contributor.

    :param family: the family name of a person; or the complete name of an organisation, or of a
        person whose name is not divided.
    :param given: the given names of a person, or None.
    :param orcid: the ORCID of a person, such as ``0000-0002-1825-0097``, or None.
    :param kind: whether the name is that of a person; None if it is not stated.
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
        """Whether the name is certainly that of a person."""
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
        """The name as in catalogues, such as ``Silva, Ana``."""
        return self.family if self.given is None else f"{self.family}, {self.given}"

    @property
    def direct(self) -> str:
        """The name as in a text, such as ``Ana Silva``."""
        return self.family if self.given is None else f"{self.given} {self.family}"


@dataclass(frozen=True, slots=True)
class IssuedDate:
    """The date of a work, as far as it is known.

    :param text: the date as it is stated.
    :param year: the year from 1 to 9999, or None.
    :param is_approximate: True if the statement says that the year is approximate ("c. 1998").
    """

    text: str
    year: int | None = None
    month: int | None = None
    day: int | None = None
    is_approximate: bool = False

    @property
    def parts(self) -> tuple[int, ...]:
        """The known parts: year, month and day; year and month; the year; or nothing."""
        return tuple(part for part in (self.year, self.month, self.day) if part is not None)

    @property
    def iso(self) -> str | None:
        """The date in ISO 8601, such as ``2009-07-21``, ``2009-07`` or ``2009``; or None."""
        widths = (4, 2, 2)
        known = [f"{part:0{width}}" for part, width in zip(self.parts, widths, strict=False)]
        return "-".join(known) or None


@dataclass(frozen=True, slots=True)
class Degree:
    """The degree for which a thesis was written.

    :param name: the name of the degree, such as ``Doutorado em Sensoriamento Remoto``, or None.
    :param programme: the postgraduate programme, or None.
    :param institution: the institution that grants the degree, or None.
    :param defended: the date of the defence, or None.
    """

    name: str | None = None
    level: DegreeLevel | None = None
    programme: str | None = None
    institution: Organisation | None = None
    defended: IssuedDate | None = None


@dataclass(frozen=True, slots=True)
class Container:
    """The journal, book or event that contains a work.

    :param title: the title of the journal or book, or the name of the event.
    :param place: the place of publication, or None.
    :param number: the issue, or None.
    :param pages: the pages, such as ``7-18``, or None.
    """

    title: str
    place: str | None = None
    volume: str | None = None
    number: str | None = None
    pages: str | None = None

    @property
    def first_page(self) -> str | None:
        """The first page."""
        return None if self.pages is None else self.pages.partition("-")[0]

    @property
    def last_page(self) -> str | None:
        """The last page; None if there is only one."""
        return None if self.pages is None else self.pages.partition("-")[2] or None


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant that paid for a work.

    :param funder: the name of the funder, which may be an abbreviation.
    :param number: the number of the grant, or None.
    :param title: the title or the acronym of the project, or None.
    :param funder_id: the identifier of the funder as a URL: of ROR, or of the Crossref Funder
        Registry (``https://doi.org/10.13039/501100001807``); or None.
    :param programme: the funding programme, such as ``FP7``, or None.
    :param url: the page of the grant, or None.
    """

    funder: str
    number: str | None = None
    title: str | None = None
    funder_id: str | None = None
    programme: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class RelatedWork:
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
    relation: Relation | None = None


@dataclass(frozen=True, slots=True)
class Description:
    """A bibliographic description.

    All texts contain only characters that XML allows. Languages are language tags such as
    ``pt-BR``, or None.

    :param titles: the titles; the first one is the title of the work.
    :param creators: the authors.
    :param type_text: the type in the words of the description, or None. If it states a URI, the
        name of the type.
    :param publisher: the publisher, or None. It may begin with a place (``Place: Name``).
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

    titles: tuple[Title, ...] = ()
    creators: tuple[Name, ...] = ()
    contributors: tuple[Name, ...] = ()
    type: WorkType = WorkType.OTHER
    type_text: str | None = None
    publisher: str | None = None
    issued: IssuedDate | None = None
    dates: Mapping[DateKind, IssuedDate] = field(default_factory=dict)
    degree: Degree | None = None
    container: Container | None = None
    abstracts: tuple[Text, ...] = ()
    subjects: tuple[Subject, ...] = ()
    rights: tuple[Text, ...] = ()
    licence_url: str | None = None
    access_right: AccessRight | None = None
    issn: str | None = None
    isbn: str | None = None
    number: str | None = None
    version: str | None = None
    extent: str | None = None
    coverage: tuple[Text, ...] = ()
    notes: tuple[Text, ...] = ()
    related: tuple[RelatedWork, ...] = ()
    funding: tuple[Grant, ...] = ()
