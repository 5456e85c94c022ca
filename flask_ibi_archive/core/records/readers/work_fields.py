"""The fields that describe a work in a table, and what they become in the JSON of a record.

The columns of a table may have the English name of a field, or one of the other words, which are
Portuguese and Spanish. The fields of reference managers are translated to these fields.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from flask_ibi_archive.core.records.fields import quoted
from flask_ibi_archive.core.records.work_values import find_licence


class Column(NamedTuple):
    """A column of a table: the name of its field, and the language of its texts, or None."""

    field: str
    lang: str | None = None


class WorkField(NamedTuple):
    """What a field becomes in the JSON of a record.

    :param path: the path of the value; ``[]`` means that the value is added to a list.
    :param words: the names of the field in Portuguese and Spanish, and other English names.
    :param is_list: whether a cell of a table may contain several values.
    :param convert: reads the usual spellings of a value; raises ValueError.
    :param member: the member of an object that contains the value, if the value has a language or
        ``extra``.
    :param extra: the other members of the object.
    :param is_parallel: whether the values of several fields belong together: the first funder and
        the first number of a grant.
    """

    path: str
    words: str = ""
    is_list: bool = False
    convert: Callable[[str], Any] | None = None
    member: str | None = None
    extra: Mapping[str, str] = {}
    is_parallel: bool = False


def fold(name: str) -> str:
    """Return a name in lower case without accents, spaces and punctuation."""
    # one by one, because to sort many accents on one letter takes quadratic time
    decomposed = "".join(unicodedata.normalize("NFKD", letter) for letter in name.casefold())
    return re.sub(r"[^\w]|_|[\u0300-\u036f]", "", decomposed)


def _split_words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _choose(words: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that replaces the words of other languages; other texts stay."""
    known = {fold(word): value for value, text in words.items() for word in _split_words(text)}
    return lambda text: known.get(fold(text), text)


_LEVELS = _choose(
    {
        "bachelor": "graduação, bacharelado, licenciatura, grado, undergraduate",
        "specialist": "especialização, especialización, especialista, specialisation",
        "master": "mestrado, mestrado profissional, maestría, masters",
        "doctoral": "doutorado, doctorado, doctorate, phd",
        "postdoctoral": "pós-doutorado, posdoctorado, postdoctorado",
    }
)
_RIGHTS = _choose(
    {
        "open": "aberto, acesso aberto, abierto, acceso abierto, open access, openAccess",
        "embargoed": "embargado, acesso embargado, acceso embargado, embargoedAccess",
        "restricted": "restrito, acesso restrito, acceso restringido, restrictedAccess",
        "metadata only": "somente metadados, apenas metadados, solo metadatos, metadataOnly",
    }
)
_LANGUAGES = _choose(
    {
        "pt": "por, português, portugués, portuguese",
        "pt-BR": "pt_br, português do brasil, português (Brasil), brazilian portuguese",
        "en": "eng, inglês, inglés, english",
        "es": "spa, espanhol, español, castellano, spanish",
        "fr": "fra, fre, francês, francés, french",
        "de": "deu, ger, alemão, alemán, german",
        "it": "ita, italiano, italian",
        "ja": "jpn, japonês, japonés, japanese",
        "zh": "zho, chi, chinês, chino, chinese",
        "ru": "rus, russo, ruso, russian",
    }
)


def read_language(text: str) -> str:
    """Return a language such as ``pt-BR``, which a table writes as ``pt_BR`` or ``Português``."""
    found = _LANGUAGES(text)
    primary, dash, region = found.replace("_", "-").partition("-")
    return f"{primary.lower()}-{region.upper()}" if dash and len(region) == 2 else found


def read_date(text: str) -> str:
    """Return a date in ISO 8601, which a table may write as ``21/07/2009``.

    :raises ValueError: if the day and the month cannot be distinguished.
    """
    if re.fullmatch(r"[0-9]{1,2}[/.][0-9]{1,2}[/.][0-9]{4}", text):
        day, month, year = (int(part) for part in re.split("[/.]", text))
        if month > 12:
            day, month = month, day
        elif day <= 12 and day != month:
            raise ValueError(
                f"{quoted(text)} may be {year}-{month:02}-{day:02} or {year}-{day:02}-{month:02}; "
                "write the date as in 2009-07-21"
            )
        return f"{year}-{month:02}-{day:02}"
    if found := re.fullmatch(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?:[T ][0-9:.]+Z?)?", text):
        return f"{found[1]}-{int(found[2]):02}-{int(found[3]):02}"
    return re.sub(r"^\[?(?:c|ca|circa)\.? ?([0-9]{4})\]?$", r"c. \1", text)


def read_licence(text: str) -> str:
    """Return the URL of a licence such as ``CC BY 4.0``; other texts stay."""
    return find_licence(text) or text


def read_file(text: str) -> dict[str, str]:
    """Return the file at a path: its name in the item is that of the file."""
    return {"path": re.split(r"[/\\]", text)[-1], "source": text.replace("\\", "/")}


def read_doi(text: str) -> str:
    """Return a DOI with its scheme."""
    return f"doi:{text}" if re.match(r"10\.[0-9]", text) else text


def _names(path: str, words: str, role: str | None = None) -> WorkField:
    extra = {} if role is None else {"role": role}
    return WorkField(path, words, is_list=True, member="name", extra=extra)


_WORK = "metadata.work."
#: The fields by their English names.
FIELDS: Mapping[str, WorkField] = {
    "title": WorkField(_WORK + "titles[]", "título, títulos, titles", member="value"),
    "subtitle": WorkField(
        _WORK + "titles[]", "subtítulo", member="value", extra={"kind": "subtitle"}
    ),
    "translated_title": WorkField(
        _WORK + "titles[]",
        "título traduzido, título traducido",
        member="value",
        extra={"kind": "translated"},
    ),
    "other_title": WorkField(
        _WORK + "titles[]",
        "outro título, título alternativo, otro título, alternative title",
        member="value",
        extra={"kind": "alternative"},
    ),
    "creators": _names(
        _WORK + "creators[]", "autor, autores, autoria, autor(es), creator, author, authors"
    ),
    "advisors": _names(
        _WORK + "contributors[]",
        "orientador, orientadora, orientadores, orientador(es), advisor, director, directores, "
        "director de tesis",
        "advisor",
    ),
    "co_advisors": _names(
        _WORK + "contributors[]",
        "coorientador, coorientadora, coorientadores, co-orientador, codirector, codirectores",
        "co-advisor",
    ),
    "committee": _names(
        _WORK + "contributors[]",
        "banca, banca examinadora, membros da banca, jurado, tribunal, committee members",
        "committee member",
    ),
    "editors": _names(
        _WORK + "contributors[]",
        "editor, editores, organizador, organizadores, organizador(es), compilador",
        "editor",
    ),
    "translators": _names(
        _WORK + "contributors[]", "tradutor, tradutores, traductor, traductores, translator",
        "translator",
    ),
    "illustrators": _names(
        _WORK + "contributors[]", "ilustrador, ilustradores, illustrator", "illustrator"
    ),
    "supervisors": _names(
        _WORK + "contributors[]", "supervisor, supervisora, supervisores", "supervisor"
    ),
    "producers": _names(_WORK + "contributors[]", "produtor, productor, producer", "producer"),
    "other_contributors": _names(
        _WORK + "contributors[]",
        "colaborador, colaboradores, contributors, contributor, contribuidores",
        "other",
    ),
    "type": WorkField(_WORK + "type", "tipo, tipo de documento, document type"),
    "publisher": WorkField(_WORK + "publisher", "editora, editorial, publicador"),
    "place": WorkField(
        _WORK + "publisher", "local, cidade, lugar, ciudad, local de publicação, publisher place"
    ),
    "issued": WorkField(
        _WORK + "issued",
        "data, ano, data de publicação, ano de publicação, fecha, año, fecha de publicación, date, "
        "year, publication date",
        convert=read_date,
    ),
    "submitted": WorkField(
        _WORK + "dates.submitted",
        "data de submissão, fecha de envío, submission date",
        convert=read_date,
    ),
    "available": WorkField(
        _WORK + "dates.available",
        "data de disponibilização, fecha de disponibilidad, date available",
        convert=read_date,
    ),
    "degree": WorkField(_WORK + "degree.name", "grau, título obtido, grado, degree name"),
    "degree_level": WorkField(
        _WORK + "degree.level", "nível, nível do grau, nivel, level", convert=_LEVELS
    ),
    "programme": WorkField(
        _WORK + "degree.programme",
        "programa, programa de pós-graduação, programa de posgrado, program, curso",
    ),
    "institution": WorkField(
        _WORK + "degree.institution", "instituição, instituición, institución, universidade"
    ),
    "defended": WorkField(
        _WORK + "degree.defended",
        "data da defesa, data de defesa, defesa, fecha de defensa, defence date",
        convert=read_date,
    ),
    "journal": WorkField(
        _WORK + "container.title",
        "revista, periódico, título do periódico, livro, evento, anais, container, book title, "
        "event, título do livro, libro",
    ),
    "volume": WorkField(_WORK + "container.volume", "vol"),
    "issue": WorkField(_WORK + "container.number", "número, fascículo, number, n"),
    "pages": WorkField(_WORK + "container.pages", "páginas, paginação, page"),
    "abstract": WorkField(_WORK + "abstracts[]", "resumo, resumen, abstracts", member="value"),
    "subjects": WorkField(
        _WORK + "subjects[]",
        "assunto, assuntos, palavras-chave, palavra-chave, palabras clave, materia, materias, "
        "keywords, subject, tema",
        is_list=True,
        member="value",
    ),
    "rights": WorkField(_WORK + "rights[]", "direitos, derechos", member="value"),
    "licence": WorkField(_WORK + "licence", "licença, licencia, license", convert=read_licence),
    "access_right": WorkField(
        _WORK + "access_right",
        "acesso, direito de acesso, tipo de acesso, acceso, tipo de acceso, access, access rights",
        convert=_RIGHTS,
    ),
    "issn": WorkField(_WORK + "issn"),
    "isbn": WorkField(_WORK + "isbn"),
    "report_number": WorkField(
        _WORK + "number",
        "número do relatório, número da patente, número do documento, número de informe, "
        "patent number",
    ),
    "version": WorkField(_WORK + "version", "versão, edição, versión, edición, edition"),
    "extent": WorkField(
        _WORK + "extent", "extensão, número de páginas, extensión, number of pages"
    ),
    "coverage": WorkField(
        _WORK + "coverage[]", "cobertura", is_list=True, member="value"
    ),
    "notes": WorkField(
        _WORK + "notes[]", "nota, notas, observações, observação, observaciones, note",
        member="value",
    ),
    "related": WorkField(
        _WORK + "related[]",
        "relacionados, relação, obras relacionadas, related works",
        is_list=True,
        member="identifier",
    ),
    "same_work": WorkField(
        _WORK + "related[]",
        "url, link, endereço, enlace",
        member="identifier",
        extra={"relation": "IsIdenticalTo"},
    ),
    "funders": WorkField(
        _WORK + "funding[].funder",
        "financiador, financiadores, agência de fomento, fomento, financiamento, funder, funding",
        is_list=True,
        is_parallel=True,
    ),
    "grants": WorkField(
        _WORK + "funding[].number",
        "processo, número do processo, projeto, grant, grant number, award",
        is_list=True,
        is_parallel=True,
    ),
    "language": WorkField("language", "idioma, língua, lengua", convert=read_language),
    "doi": WorkField("same_as[]", convert=read_doi),
    "same_as": WorkField(
        "same_as[]",
        "handle, identificadores, outros identificadores, otros identificadores, identifiers",
        is_list=True,
    ),
    "files": WorkField(
        "files[]", "arquivo, arquivos, archivo, archivos, file", is_list=True, convert=read_file
    ),
    "embargo": WorkField("embargo", "fim do embargo, embargo até", convert=read_date),
    "key": WorkField("key", "chave, clave, id, código"),
}  # fmt: skip

#: The paths of objects and lists of objects that several fields fill.
OBJECTS = frozenset({"metadata.work.container", "metadata.work.degree", "metadata.work.funding"})
_BY_NAME = {
    fold(word): name
    for name, described in FIELDS.items()
    for word in [name, *_split_words(described.words)]
}
#: The language at the end of a name. The name itself is not matched, because that takes quadratic
#: time if it contains many spaces.
_LANGUAGE = re.compile(r"[\[(]([A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8})*)[\])]\s*\Z")


def find_column(name: str) -> Column | None:
    """Return what a column with a name contains; None if the name is unknown.

    A language may follow in brackets, as in ``title[en]`` or ``Resumo (pt-BR)``.
    """
    if (field := _BY_NAME.get(fold(name))) is not None:
        return Column(field)
    found = _LANGUAGE.search(name)
    field = None if found is None else _BY_NAME.get(fold(name[: found.start()]))
    if found is None or field is None or FIELDS[field].member != "value":
        return None
    return Column(field, found[1].replace("_", "-"))


def list_names() -> list[str]:
    """Return all names that columns may have, without languages."""
    return [word for name, one in FIELDS.items() for word in [name, *_split_words(one.words)]]
