"""Choose the format of an answer from the Accept header of the request (RFC 9110, 12.5.1).

Clients negotiate at a landing page, at the page of the metadata and at a file. A persistent URL
leads to one of these; to the metadata if the client prefers metadata to anything else. The media
types are the same as for DOIs (https://citation.doi.org/docs.html), so that programs for DOIs also
work here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from flask import request
from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_options_header

from flask_ibi_archive.core.protocol.languages import parse_accept_language
from flask_ibi_archive.core.protocol.relations import SHAPES, Relation, Step, StepKind, VerbList
from flask_ibi_archive.core.records.formats import BUILT_IN
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl, ResolutionRequest
from flask_ibi_archive.server.web import requests

#: Other media types of the formats, which programs send.
ALIASES = {
    "application/xml": "oai_dc",
    "text/xml": "oai_dc",
    "application/x-datacite+xml": "datacite",
    "application/json": "json-ld",
    "application/citeproc+json": "csl-json",
    "text/x-bibtex": "bibtex",
    "application/bibtex": "bibtex",
}
#: Media types of descriptions that no Archive writes. Clients that ask for them want no file.
OTHER_METADATA = {
    *("application/rdf+xml", "text/turtle", "application/x-turtle", "text/n3"),
    *("application/n-triples", "application/n-quads", "application/trig"),
    *("application/vnd.crossref.unixref+xml", "application/vnd.crossref.unixsd+xml"),
    *("application/marcxml+xml", "application/mods+xml", "text/x-bibliography"),
}
#: The media types of the metadata that every Archive writes.
_KNOWN = {format.name: format.media_type for format in BUILT_IN}


def choose_format(accept: MIMEAccept, formats: Mapping[str, str | None]) -> str | None:
    """Return the format that a client prefers.

    HTML has precedence over formats with the same quality, because browsers and libraries accept
    all types.

    :param formats: the media types of the formats, by name.
    :returns: the name of a format, or "" for HTML. HTML is also chosen if the client wants metadata
        in an unknown format. None if the client accepts none of the formats.
    """
    if not accept:
        return ""
    ranges = _read_ranges(accept)
    offers = {"text/html": ""}
    # Browsers name XHTML. A range such as application/* does not mean our pages, which are HTML.
    if any(type.lower() == "application/xhtml+xml" for type in ranges.values()):
        offers["application/xhtml+xml"] = ""
    for name, media_type in formats.items():
        if media_type is not None:
            offers.setdefault(media_type, name)
    offers.update({type: name for type, name in ALIASES.items() if name in formats})
    best = max(offers, key=ranges.quality)
    if ranges.quality(best) > 0:
        return offers[best]
    return "" if OTHER_METADATA.intersection(type.lower() for type in ranges.values()) else None


def choose_media_type(accept: MIMEAccept, name: str, media_type: str) -> str:
    """Return the media type for a response in a format, or an alias that the client prefers."""
    types = [media_type, *(type for type, format in ALIASES.items() if format == name)]
    return _read_ranges(accept).best_match(types, media_type)


def prefers_metadata(
    accept: MIMEAccept,
    file_type: str | None = None,
    formats: Mapping[str, str | None] = _KNOWN,
) -> bool:
    """Return whether a client that asks for a work prefers metadata to anything else.

    A range such as ``application/*`` is not a wish for metadata, because it also matches files.

    :param file_type: the media type of the work, or None if it is not known yet.
    :param formats: the media types of the formats, by name.
    """
    ranges = _read_ranges(accept)
    best = max((quality for _, quality in ranges), default=0)
    wanted = {type.lower() for type, quality in ranges if quality == best}
    known = {*ALIASES, *OTHER_METADATA, *formats.values()}
    return best > 0 and wanted <= known and file_type not in wanted


def add_metadata_step(wanted: PersistentUrl) -> PersistentUrl:
    """Change a persistent URL so that it leads to metadata, if the current client wants metadata.

    A persistent URL that already names a file, the list of files or metadata does not change.
    """
    relation, accept = wanted.verbs.relation, request.accept_mimetypes
    names_part = bool(wanted.path) or wanted.verbs.file_list or f"{relation.shape}m" not in SHAPES
    if names_part or not prefers_metadata(accept):
        return wanted
    format = choose_format(accept, _KNOWN) or None  # without a format, the page of the metadata
    steps = (*relation.steps, Step(StepKind.METADATA, format))
    return replace(wanted, verbs=VerbList(Relation(steps)))


def read_resolution_request(wanted: PersistentUrl, target: str) -> ResolutionRequest:
    """Combine a persistent URL with the headers and the addresses of the current request.

    The persistent URL need not be the URL of the current request.

    :param target: the path and the query of the persistent URL.
    """
    return ResolutionRequest(
        add_metadata_step(wanted),
        requests.request_origin() + target,
        requests.request_addresses(),
        parse_accept_language(",".join(request.headers.getlist("Accept-Language"))),
        request.headers.get("User-Agent"),
    )


def _read_ranges(accept: MIMEAccept) -> MIMEAccept:
    """Remove the parameters of media ranges, because no format depends on a parameter."""
    return MIMEAccept([(parse_options_header(text)[0], quality) for text, quality in accept])
