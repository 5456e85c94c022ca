"""Parsers of the identifiers of people, organisations, funders, journals, books and related works.

Each parser checks a text, also its check digits, and returns the canonical text. If the text is
wrong, the parser raises FieldError.

Source: ISO 7064 (check digits); https://ror.readme.io/docs/identifier (ROR);
https://support.orcid.org (ORCID); ISO 2108 (ISBN); ISO 3297 (ISSN).
"""

from __future__ import annotations

import re
from typing import Any

from stdnum import isbn, issn
from stdnum.exceptions import ValidationError
from stdnum.iso7064 import mod_97_10

from flask_ibi_archive.core.identifiers.foreign import ForeignKind, parse_foreign
from flask_ibi_archive.core.identifiers.grammar import match_identifier
from flask_ibi_archive.core.records.description import IdentifierKind, RelatedWork
from flask_ibi_archive.core.records.fields import FieldError, parse_line_text, quoted
from flask_ibi_archive.core.records.values import is_orcid, is_url
from flask_ibi_archive.errors import IdentifierError

_ORCID = re.compile(
    r"(?:(?:https?://)?(?:www\.)?orcid\.org/|orcid(?:[ -]?id)?[: ]\s*)?"
    r"([0-9]{4})[- ]?([0-9]{4})[- ]?([0-9]{4})[- ]?([0-9]{3}[0-9X])/?",
    re.IGNORECASE,
)
_LATTES = re.compile(
    r"(?:(?:https?://)?(?:(?:www|buscatextual)\.)?lattes\.cnpq\.br/)?([0-9]{16})/?"
)
#: Crockford's Base32 has no i, l, o and u. The last two digits are check digits.
_BASE32 = "0123456789abcdefghjkmnpqrstvwxyz"
_ROR = re.compile(rf"(?:(?:https?://)?ror\.org/)?(0[{_BASE32}]{{6}}[0-9]{{2}})/?", re.IGNORECASE)
_FUNDER = re.compile(r"(?:(?:https?://)?(?:dx\.)?doi\.org/|doi:\s*)?(10\.13039/[0-9]+)", re.I)
_ISSN = re.compile(r"(?:[ep]?-?issn(?:-?l)?[: ]\s*)?([0-9]{4})-?([0-9]{3}[0-9X])", re.IGNORECASE)
_ISBN = re.compile(r"(?:isbn(?:-?1[03])?[: ]\s*)?((?:97[89][- ]?)?[0-9][0-9 -]{7,14}[0-9X])", re.I)

_KINDS: dict[ForeignKind, IdentifierKind] = {
    ForeignKind.DOI: "DOI",
    ForeignKind.HANDLE: "Handle",
    ForeignKind.ARK: "ARK",
    ForeignKind.URN: "URN",
    ForeignKind.ADDRESS: "URL",
}


def parse_orcid(field: str, value: Any) -> str:
    """Parse an ORCID or its URL, and return the ORCID with hyphens."""
    text = parse_line_text(field, value)
    found = _ORCID.fullmatch(text)
    if found is None:
        raise FieldError(field, f"{quoted(text)} is not an ORCID such as 0000-0002-1825-0097")
    orcid = "-".join(found.groups()).upper()
    if not is_orcid(orcid):
        raise FieldError(field, f"{quoted(text)} is not an ORCID: the check digit is wrong")
    return orcid


def parse_lattes(field: str, value: Any) -> str:
    """Parse the number of a Curriculum Lattes or its URL, and return the number."""
    text = parse_line_text(field, value)
    found = _LATTES.fullmatch(text)
    if found is None:
        raise FieldError(
            field,
            f"{quoted(text)} is not the number of a Curriculum Lattes (16 digits) or its URL, "
            "http://lattes.cnpq.br/ and the number",
        )
    return found[1]


def parse_ror(field: str, value: Any) -> str:
    """Parse an identifier of the Research Organization Registry, and return its URL."""
    text = parse_line_text(field, value)
    ror = _find_ror(text)
    if ror is None:
        raise FieldError(field, f"{quoted(text)} is not a ROR such as https://ror.org/04xbn6x09")
    return _check_ror(field, ror)


def _find_ror(text: str) -> str | None:
    found = _ROR.fullmatch(text)
    return found[1].lower() if found else None


def _check_ror(field: str, ror: str) -> str:
    number = 0
    for character in ror[1:7]:
        number = number * 32 + _BASE32.index(character)
    if mod_97_10.calc_check_digits(str(number)) != ror[7:]:
        raise FieldError(field, f"{quoted(ror)} is not a ROR: the check digits are wrong")
    return f"https://ror.org/{ror}"


def parse_funder_id(field: str, value: Any) -> str:
    """Parse a ROR, or a DOI of the Crossref Funder Registry, and return its URL."""
    text = parse_line_text(field, value)
    if found := _FUNDER.fullmatch(text):
        return f"https://doi.org/{found[1]}"
    ror = _find_ror(text)
    if ror is None:
        raise FieldError(
            field,
            f"{quoted(text)} is neither a ROR such as https://ror.org/03swz6y49 nor a DOI of the "
            "Crossref Funder Registry such as https://doi.org/10.13039/501100001807",
        )
    return _check_ror(field, ror)


def parse_issn(field: str, value: Any) -> str:
    """Parse an ISSN, and return it with a hyphen."""
    text = parse_line_text(field, value)
    found = _ISSN.fullmatch(text)
    if found is None:
        raise FieldError(field, f"{quoted(text)} is not an ISSN such as 0100-879X")
    number = "-".join(found.groups()).upper()
    if not issn.is_valid(number):
        raise FieldError(field, f"{quoted(text)} is not an ISSN: the check digit is wrong")
    return number


def parse_isbn(field: str, value: Any) -> str:
    """Parse an ISBN, and return it as it is stated, with its hyphens."""
    text = parse_line_text(field, value)
    found = _ISBN.fullmatch(text)
    try:
        if found is not None:
            isbn.validate(found[1])
            return found[1].replace(" ", "-").upper()
    except ValidationError:
        raise FieldError(
            field, f"{quoted(text)} is not an ISBN: a digit or the check digit is wrong"
        ) from None
    raise FieldError(field, f"{quoted(text)} is not an ISBN such as 978-0-306-40615-7")


def parse_http_url(field: str, value: Any) -> str:
    """Check that a value is an http or https URL as RFC 3986 writes it."""
    text = parse_line_text(field, value)
    if not is_url(text):
        raise FieldError(field, f"{quoted(text)} is not a URL such as https://example.org/page")
    return text


def find_related_work(field: str, value: Any) -> RelatedWork:
    """Parse the identifier of another work, and find the kind of the identifier."""
    text = parse_line_text(field, value)
    if (ibi := match_identifier(text)) is not None:
        return RelatedWork(ibi.text, "IBI")
    if _ISSN.fullmatch(text):
        return RelatedWork(parse_issn(field, text), "ISSN")
    if _ISBN.fullmatch(text):
        return RelatedWork(isbn.compact(parse_isbn(field, text)), "ISBN")
    try:
        foreign = parse_foreign(text)
    except IdentifierError as error:
        if text.lower().startswith(("http:", "https:")):
            raise FieldError(field, str(error)) from None
        raise FieldError(
            field,
            f"{quoted(text)} is not an identifier: write a DOI, Handle, ARK, URN, IBI, ISBN, ISSN "
            "or an http or https URL",
        ) from None
    return RelatedWork(foreign.text, _KINDS[foreign.kind], foreign.url)
