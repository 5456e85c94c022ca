"""The classes of a description of a work, and the types of works."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NamedTuple

# --- work types --------------------------------------------------------------------------------


class WorkType(str, Enum):
    """The type of a work, as the metadata formats distinguish types."""

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


THESES = frozenset(
    {
        WorkType.THESIS,
        WorkType.DOCTORAL_THESIS,
        WorkType.MASTER_THESIS,
        WorkType.BACHELOR_THESIS,
    }
)

#: The types of works that appear in a journal.
IN_JOURNALS = frozenset({WorkType.ARTICLE, WorkType.REVIEW})
#: The types of works that appear in a journal, in a book or in the proceedings of an event.
CONTAINED = IN_JOURNALS | {WorkType.CHAPTER, WorkType.CONFERENCE_PAPER, WorkType.POSTER}

#: The words for each type, without accents and in lower case: Portuguese, Spanish and English
#: words; the DCMI Type Vocabulary; the COAR Resource Types 3.1 (labels, and codes c_...); the
#: DRIVER vocabulary (info:eu-repo/semantics/...), which is compared without spaces and hyphens.
_WORDS: dict[WorkType, str] = {
    WorkType.DOCTORAL_THESIS: """
        doctoral thesis, tese de doutorado, tesis doctoral, tesis de doctorado,
        phd thesis, doctoral dissertation, doctorate, doutorado, tese, c_db06""",
    WorkType.MASTER_THESIS: """
        master thesis, master's thesis, dissertacao de mestrado,
        dissertacao, tesis de maestria, mestrado, mestrado profissional, c_bdcc""",
    WorkType.BACHELOR_THESIS: """
        bachelor thesis, bachelor's thesis, trabalho de conclusao de curso, tcc, monografia,
        trabajo de grado, tesis de grado, c_7a1f""",
    WorkType.THESIS: "thesis, tesis, dissertation, thesis or dissertation, c_46ec",
    WorkType.ARTICLE: """
        article, journal article, research article, data paper, magazine article, newspaper article,
        artigo, artigo de periodico, artigo de revista, artigo cientifico, artigo de jornal,
        articulo, articulo de revista, contribution to journal, contribution to periodical,
        c_6501, c_2df8fbb1, c_beb9, c_b239, c_545b, c_dcae04bc, c_3e5a, c_998f""",
    WorkType.REVIEW: "review, book review, peer review, resenha, resena, c_efa0, c_ba08",
    WorkType.PREPRINT: """
        preprint, working paper, discussion paper, pre print, pre publicacao, texto para discussao,
        c_816b, c_8042""",
    WorkType.BOOK: "book, livro, libro, monograph, e-book, ebook, c_2f33",
    WorkType.CHAPTER: """
        book part, book chapter, chapter, part of book or chapter of book, capitulo,
        capitulo de livro, capitulo de libro, in book, c_3248""",
    WorkType.CONFERENCE_PAPER: """
        conference object, conference paper, conference item, conference output, trabalho em evento,
        trabalho de evento, trabalho apresentado em evento, artigo de evento, artigo de conferencia,
        resumo em evento, documento de conferencia, ponencia, contribution to conference,
        paper in conference proceedings, c_5794, c_c94f""",
    WorkType.POSTER: "conference poster, poster, c_6670",
    WorkType.PROCEEDINGS: """
        conference proceedings, proceedings, anais, anais de evento, actas, c_f744""",
    WorkType.REPORT: """
        report, technical report, research report, internal report, external research report,
        report part, technical documentation, relatorio, relatorio tecnico, relatorio de pesquisa,
        informe, informe tecnico, c_93fc, c_18gh, c_18ws, c_18hj, c_18ww, c_71bd""",
    WorkType.DATASET: """
        dataset, data set, data, dados, conjunto de dados, dados de pesquisa, base de dados,
        conjunto de datos, datos, observational data, experimental data, c_ddb1""",
    WorkType.SOFTWARE: """
        software, programa de computador, software livre, research software, source code, codigo,
        codigo fonte, program, c_5ce6""",
    WorkType.IMAGE: """
        image, still image, imagem, imagen, fotografia, photograph, photo, figura, figure, desenho,
        fotografias, ilustracao, c_c513, c_ecc8""",
    WorkType.MAP: "map, mapa, cartographic material, carta topografica, c_12cd, c_12cc",
    WorkType.VIDEO: "moving image, video, filme, film, pelicula, c_8a7e, c_12ce",
    WorkType.SOUND: "sound, audio, som, sonido, gravacao de som, c_18cc",
    WorkType.MUSIC: "music, musical composition, musica, partitura, c_18cd, c_18cw",
    WorkType.LECTURE: """
        lecture, presentation, conference presentation, aula, palestra, apresentacao,
        learning object, presentacion, slides, objeto de aprendizagem, c_8544, c_e059""",
    WorkType.PATENT: "patent, patente, c_15cd",
    WorkType.STANDARD: "standard, norma, norma tecnica, technical standard",
    WorkType.COLLECTION: "collection, colecao, coleccion",
    WorkType.TEXT: "text, texto, document, documento, c_18cf",
    WorkType.OTHER: """
        other, outro, outros, otro, event, evento, interactive resource, physical object,
        service, c_1843""",
}  # fmt: skip


def _fold(text: str) -> str:
    """Return a text in lower case, without accents, spaces, hyphens and apostrophes."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return re.sub(r"[\s_'\u2019-]|[\u0300-\u036f]", "", decomposed)


_TYPES = {_fold(word.strip()): type for type, words in _WORDS.items() for word in words.split(",")}
#: A URL or URI, of a vocabulary for example, and its last part.
_URI = re.compile(r"(?=(?:https?|info|urn):)\S*[/#:]([^/#:\s]+)[/#]?", re.IGNORECASE)


def find_type(text: str) -> WorkType | None:
    """Return the type that a value of dc:type means; None if the value is unknown.

    A value may have an addition, as in ``Tese (Doutorado em Cardiologia)``, and it may be the URI
    of a vocabulary, as in ``info:eu-repo/semantics/doctoralThesis``.
    """
    uri = _URI.fullmatch(text.strip())
    folded = _fold(uri[1] if uri else text)
    if folded in _TYPES:
        return _TYPES[folded]
    main, _, addition = folded.partition("(")
    for degree, type in _DEGREES.items():
        if degree in addition and _TYPES.get(main) in THESES:
            return type
    return _TYPES.get(main)


#: The words in parentheses that name the degree of a thesis.
_DEGREES = {
    "doutor": WorkType.DOCTORAL_THESIS,
    "doctor": WorkType.DOCTORAL_THESIS,
    "phd": WorkType.DOCTORAL_THESIS,
    "livredoc": WorkType.THESIS,
    "mestr": WorkType.MASTER_THESIS,
    "maestr": WorkType.MASTER_THESIS,
    "master": WorkType.MASTER_THESIS,
    "gradua": WorkType.BACHELOR_THESIS,
    "bacharel": WorkType.BACHELOR_THESIS,
    "bachelor": WorkType.BACHELOR_THESIS,
    "licenciatura": WorkType.BACHELOR_THESIS,
    "especializa": WorkType.BACHELOR_THESIS,
}


def find_best_type(texts: Iterable[str]) -> tuple[str | None, WorkType]:
    """Return the value of dc:type that says most, in words, and its type.

    Often there are several values, such as ``Text`` and ``info:eu-repo/semantics/article``. Words
    precede URIs that say as much, because readers cannot read a URI.

    :returns: the name of the type instead of a URI; None instead of the URI of an unknown type.
        (None, OTHER) if there is no value.
    """
    found = [(text, find_type(text), bool(_URI.fullmatch(text.strip()))) for text in texts]
    found.sort(key=lambda value: value[2])  # words precede URIs
    # specific types are tried first, then the type text, then the type other, then unknown types
    for general in ((None, WorkType.OTHER, WorkType.TEXT), (None, WorkType.OTHER), (None,), ()):
        for text, type, is_uri in found:
            if type not in general:
                name_of_type = type.value if type else None
                return name_of_type if is_uri else text, type or WorkType.OTHER
    return None, WorkType.OTHER


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
