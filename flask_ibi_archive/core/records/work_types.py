"""The types of works, and the words for them in Dublin Core."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from enum import Enum


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
