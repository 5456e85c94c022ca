"""Licences: their URLs, which descriptions store, and their SPDX identifiers.

Source: SPDX License List (https://spdx.org/licenses/), which the library ``packaging`` contains.
"""

from __future__ import annotations

import re

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from flask_ibi_archive.core.records.work_values import find_licence

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
