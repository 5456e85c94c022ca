"""Parsers of the values of Dublin Core elements, which are free text, and of licences."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from functools import lru_cache
from urllib.parse import quote

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from flask_ibi_archive.core.records.description import Container, IssuedDate, Name
from flask_ibi_archive.core.records.record import NOT_XML
from flask_ibi_archive.errors import one_line

# --- work values -------------------------------------------------------------------------------


#: The beginning of a value of dc:relation that states a grant.
GRANT_PREFIX = "info:eu-repo/grantAgreement/"
#: The names of funders that metadata abbreviate.
FUNDERS = {"EC": "European Commission"}


def clean(text: str) -> str:
    """Return a text in which U+FFFD replaces the characters that XML 1.0 does not allow."""
    return NOT_XML.sub("\ufffd", text)


#: Matches an ORCID beside a name: a URL, a number after the word ORCID, or a number with hyphens.
_ORCID = re.compile(
    r"[\s,;:|/([{<–-]*"
    r"(?:(?:\borcid(?:[ -]?id)?\s*[:=]?\s*)?(?:https?://)?(?:www\.)?orcid\.org/"
    r"|\borcid(?:[ -]?id)?\s*[:=]?\s*|(?<![\w-])(?=[0-9]{4}-))"
    r"([0-9]{4})[- ]?([0-9]{4})[- ]?([0-9]{4})[- ]?([0-9]{3}[0-9X])(?![\w-])/?[\s)\]}>]*",
    re.IGNORECASE,
)


def parse_name(text: str) -> Name:
    """Parse a name. ``Silva, Ana`` is a person; a name without a comma stays as it is.

    The name may contain an ORCID, as in ``Silva, Ana (0000-0002-1825-0097)``.
    """
    text = one_line(text)
    found = _ORCID.search(text)
    rest = _ORCID.sub(" ", text).replace(" ,", ",").strip(",; ")
    orcid = None
    if found is not None and rest:
        text = rest
        digits = "-".join(found.groups()).upper()
        orcid = digits if is_orcid(digits) else None
    family, _, given = (part.strip() for part in text.partition(","))
    if family and given:
        return Name(family, given, orcid)
    return Name(text.strip(", ") or "?", None, orcid)


def has_orcid(text: str) -> bool:
    """Return whether a text contains an ORCID, even if the check digit is wrong."""
    return _ORCID.search(text) is not None


def is_orcid(text: str) -> bool:
    """Return whether a text such as ``0000-0002-1825-0097`` is an ORCID with a correct check digit.

    Source: ISO 7064, MOD 11-2, as in https://support.orcid.org (structure of the ORCID identifier).
    """
    total = 0
    for digit in text[:-1].replace("-", ""):
        total = (total + int(digit)) * 2
    return "0123456789X"[(12 - total % 11) % 11] == text[-1]


_ISO = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?(?:[T ][0-9:.]+.*)?")
_COMPACT = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})")
_NUMERIC = re.compile(r"([0-9]{1,2})[/.]([0-9]{1,2})[/.]([0-9]{4})")
_YEAR = re.compile(r"(?<![0-9])(1[0-9]{3}|20[0-9]{2})(?![0-9])")
_APPROXIMATE = re.compile(r"(?<!\w)(?:c|ca|circa|cerca de|about|approx)\b|[?~]", re.IGNORECASE)


@lru_cache(maxsize=1024)  # imports have few dates, each many times
def parse_date(text: str) -> IssuedDate:
    """Parse a date such as ``2009-07-21``, ``1998-08``, ``1998``, ``c. 1998`` or ``May 1998``.

    ``03/04/2009`` is the third of April or the fourth of March. Therefore only the year is set. If
    the text contains two different years, such as ``1998-2001``, the year is None.
    """
    text = one_line(text)
    if found := _ISO.fullmatch(text) or _COMPACT.fullmatch(text):
        year, month, day = (None if part is None else int(part) for part in found.groups())
        if year and _is_date(year, month, day):
            return IssuedDate(text, year, month, day)
    elif found := _NUMERIC.fullmatch(text):
        first, second, year = map(int, found.groups())
        month, day = (second, first) if first > 12 else (first, second)
        if year and max(first, second) > 12 and _is_date(year, month, day):
            return IssuedDate(text, year, month, day)
    years = set(_YEAR.findall(text))
    if len(years) != 1:
        return IssuedDate(text)
    return IssuedDate(text, int(years.pop()), is_approximate=bool(_APPROXIMATE.search(text)))


def _is_date(year: int, month: int | None, day: int | None) -> bool:
    try:
        date(year, 1 if month is None else month, 1 if day is None else day)
    except ValueError:
        return False
    return True


def find_issued(texts: Iterable[str]) -> IssuedDate | None:
    """Return the date of publication among the values of dc:date; None if there is no value.

    Repositories such as DSpace list the moments of submission before the date of publication. A
    value with a time of day is therefore only used if there is no other value. The end of an
    embargo is no such date.
    """
    dates = [parse_date(text) for text in texts if text.strip() and "/embargoEnd/" not in text]
    stated = [date for date in dates if "T" not in date.text or date.year is None]
    return next(iter(stated or dates), None)


_DOI = re.compile(
    r"(?:(?:https?://)?(?:dx\.|www\.)?doi\.org/|(?:info:|urn:)?doi[:/\s]\s*)?"
    r"(10\.[0-9]{4,9}(?:\.[0-9]+)*/\S+)",
    re.IGNORECASE,
)


def find_doi(text: str) -> str | None:
    """Return the DOI in a text such as ``doi:10.1000/182`` or ``https://doi.org/10.1000/182``."""
    found = _DOI.fullmatch(text.strip())
    return found[1] if found else None


def format_doi(doi: str) -> str:
    """Return the URL of a DOI. %XX replaces the characters that URLs do not allow."""
    return "https://doi.org/" + quote(doi, safe="/:;()@!$&'*+,=~")


_IN_URL = r"(?:[A-Za-z0-9._~:/?@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"
#: Matches the URLs of RFC 3986; another text would not be valid in XML as xs:anyURI.
_URL = re.compile(rf"https?://[A-Za-z0-9.-]+(?::[0-9]+)?(?:[/?]{_IN_URL})?(?:#{_IN_URL})?")
#: Addresses in dc:rights that say who has access, and are no licences.
_ACCESS = re.compile(r"access[-_]?right|eu-repo", re.IGNORECASE)
_CREATIVE_COMMONS = re.compile(
    r"(?:creative\s+commons\s*)?(?:\(?cc[\s-]*)"
    r"(?:(0|zero)|(by(?:[\s-](?:nc|nd|sa))*))(?:[\s-]*v?([1-4]\.[0-9]))?\)?"
    r"(?:\s+(?:universal|international|internacional|brazil|brasil))?",
    re.IGNORECASE,
)


def is_url(text: str) -> bool:
    """Return whether a text is an http or https URL."""
    return _URL.fullmatch(text.strip()) is not None


def find_licence(text: str) -> str | None:
    """Return the URL of the licence that a value of dc:rights names; None if there is none.

    The value is a URL, or the short name of a Creative Commons licence with its version, such as
    ``CC BY 4.0``.
    """
    text = one_line(text)
    if is_url(text):
        return None if _ACCESS.search(text) else text
    found = _CREATIVE_COMMONS.fullmatch(text)
    if found is None:
        return None
    zero, conditions, version = found.groups()
    if zero:
        return "https://creativecommons.org/publicdomain/zero/1.0/"
    if version is None:
        return None
    name = re.sub(r"[\s-]+", "-", conditions.lower())
    return f"https://creativecommons.org/licenses/{name}/{version}/"


def name_licence(url: str) -> str:
    """Return the short name of a Creative Commons licence, such as ``CC BY 4.0``.

    :returns: the URL itself if the licence is another one.
    """
    found = _LICENCE_URL.fullmatch(url)
    if found is None:
        return url
    conditions, version, zero = found.groups()
    return f"CC0 {zero}" if zero else f"CC {conditions.upper()} {version}"


_LICENCE_URL = re.compile(
    r"https?://(?:www\.)?creativecommons\.org/"
    r"(?:licenses/(by(?:-nc|-nd|-sa)*)/([0-9]\.[0-9])|publicdomain/zero/([0-9]\.[0-9]))/?"
)
_ISSN = re.compile(r"(?:(?:e-?|p-?)?issn|urn:issn)?[\s:]*([0-9]{4}-[0-9]{3}[0-9Xx])", re.IGNORECASE)
_ISBN = re.compile(r"(?:isbn|urn:isbn)[\s:]*((?:97[89][- ]?)?[0-9][0-9 -]{7,14}[0-9Xx])", re.I)


def find_issn(text: str) -> str | None:
    """Return the ISSN in a text such as ``ISSN 1234-567X`` or ``1234-567X``."""
    found = _ISSN.fullmatch(text.strip())
    return found[1].upper() if found else None


def find_isbn(text: str) -> str | None:
    """Return the ISBN in a text such as ``ISBN 978-85-17-00001-1``."""
    found = _ISBN.fullmatch(text.strip())
    return found[1] if found else None


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


def split_publisher(text: str | None) -> tuple[str | None, str | None]:
    """Return the place and the name of a publisher.

    Catalogues write ``São José dos Campos: INPE`` in dc:publisher.

    :returns: the place and the name; each of them is None if it is unknown.
    """
    if text is None:
        return None, None
    place, _, name = (part.strip() for part in text.partition(": "))
    return (place, name) if place and name else (None, text)


# --- licences ----------------------------------------------------------------------------------


_SPDX = re.compile(r"[A-Za-z0-9.-]+")
#: The URLs of lists of licences. The last part of a URL is often an SPDX identifier.
_LISTED = re.compile(
    r"https?://(?:www\.)?(?:spdx\.org/licenses|opensource\.org/licen[sc]es?)/"
    r"([A-Za-z0-9.-]+?)(?:\.html|\.json)?/?"
)
_PART = "(?:by|nc|nd|sa)"
#: The URL of a Creative Commons licence, perhaps that of a country, and of a language of its text.
_COMMONS_URL = re.compile(
    rf"https?://(?:www\.)?creativecommons\.org/licenses/({_PART}(?:-{_PART})*)/([0-9]\.[0-9])"
    r"(?:/([a-z]{2,3}))?(?:/(?:deed|legalcode)[^/]*)?/?",
    re.IGNORECASE,
)
_COMMONS_NAME = re.compile(
    rf"CC-({_PART}(?:-{_PART})*)-([0-9]\.[0-9])(?:-([A-Z]{{2,3}}))?", re.IGNORECASE
)
#: Neither the waiver nor the mark of Creative Commons is a licence with conditions.
_PUBLIC_DOMAIN = {"CC0-1.0": "zero", "CC-PDM-1.0": "mark"}
_PUBLIC_DOMAIN_URL = re.compile(
    r"https?://(?:www\.)?creativecommons\.org/publicdomain/(zero|mark)/1\.0"
    r"(?:/(?:deed|legalcode)[^/]*)?/?",
    re.IGNORECASE,
)


def parse_licence(text: str) -> str | None:
    """Return the URL of a licence; licences of the SPDX list have one URL each.

    :param text: an SPDX identifier such as ``CC-BY-4.0``, a short name such as ``CC BY 4.0``, or an
        http or https URL.
    :returns: None if the text is something else.
    """
    spdx = _find_listed(text)
    if spdx is not None:
        return _format_url(spdx)
    url = find_licence(text)
    if url is None:
        return None
    spdx = find_spdx(url)
    if spdx is not None:
        return _format_url(spdx)
    found = _COMMONS_URL.fullmatch(url)
    return _format_commons(*found.groups()) if found else url


def find_spdx(url: str) -> str | None:
    """Return the SPDX identifier of the licence that has a URL; None if the list has none."""
    if found := _PUBLIC_DOMAIN_URL.fullmatch(url):
        return next(name for name, path in _PUBLIC_DOMAIN.items() if path == found[1].lower())
    if found := _COMMONS_URL.fullmatch(url):
        return _find_listed("-".join(["CC", *filter(None, found.groups())]))
    found = _LISTED.fullmatch(url)
    return _find_listed(found[1]) if found else None


def _find_listed(text: str) -> str | None:
    """Return an SPDX identifier in the spelling of the list; None if the list has none."""
    if not _SPDX.fullmatch(text) or text.lower().startswith("licenseref"):
        return None
    try:
        return canonicalize_license_expression(text)
    except InvalidLicenseExpression:
        return None


def _format_url(spdx: str) -> str:
    if spdx in _PUBLIC_DOMAIN:
        return f"https://creativecommons.org/publicdomain/{_PUBLIC_DOMAIN[spdx]}/1.0/"
    found = _COMMONS_NAME.fullmatch(spdx)
    return _format_commons(*found.groups()) if found else f"https://spdx.org/licenses/{spdx}"


def _format_commons(conditions: str, version: str, port: str | None) -> str:
    end = f"{version}/{port.lower()}/" if port else f"{version}/"
    return f"https://creativecommons.org/licenses/{conditions.lower()}/{end}"
