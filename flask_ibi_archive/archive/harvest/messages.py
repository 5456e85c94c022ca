"""Parses the requests of harvesters, and writes the responses as XML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TypeAlias
from xml.parsers.expat import ExpatError, ParserCreate

from msgspec import Struct

from flask_ibi_archive.archive.items.access import HostFunctionFailed, logging_failure
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.records.description import WorkType
from flask_ibi_archive.core.records.formats import MetadataFormat
from flask_ibi_archive.core.records.formats.common import DECLARATION, XSI, element
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.errors import IBIError

# --- sets --------------------------------------------------------------------------------------

# the patterns of OAI-PMH.xsd
_WORD = r"[A-Za-z0-9\-_.!~*'()]+"
SET_SPEC = re.compile(rf"{_WORD}(:{_WORD})*\Z")
#: The largest length of a setSpec.
MAX_SPEC = 255
#: A hidden set with the theses, for the formats that describe theses alone. It has no setSpec that
#: a harvester could use.
THESES = "=theses"
#: The sets that aggregators harvest, and their names.
_SHARED = {"openaire": "OpenAIRE", "driver": "Open Access DRIVERset"}

#: A function of the host that returns the sets of an item.
FindItemSets = Callable[[Work], Iterable[str]]


class HarvestError(IBIError):
    """Raised if a request of a harvester is wrong, or if no record fits the request.

    :param code: the code of the error, such as ``badArgument``.

    Source: OAI-PMH 2.0, 3.6.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(f"{code}: {message}")


def _make_type_spec(type: WorkType) -> str:
    return f"type:{type.value.replace(' ', '-')}"


#: The names of the sets of types, by their setSpecs.
TYPES = {_make_type_spec(type): type.value.capitalize() for type in WorkType}


def find_default_sets(work: Work) -> Iterator[str]:
    """Yield the setSpecs of the sets that every Archive has and to which an item belongs.

    The set "driver" contains what is open to all readers; the set "openaire" also contains what a
    grant has paid for. There is a set for each type of item, and a hidden set for theses.
    """
    is_open = (work.access or work.access_right) == "open"
    if is_open:
        yield "driver"
    if is_open or work.funding:
        yield "openaire"
    yield _make_type_spec(work.type)
    if work.type.is_thesis:
        yield THESES


@dataclass
class HarvestSets:
    """The sets that an Archive offers to harvesters.

    :ivar names: the sets of the host: the name for people, by setSpec (the name in requests).
    :ivar find: the function that returns to which sets of the host an item belongs. It is None if
        the host has no sets.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    find: FindItemSets | None = None

    def define(self, names: Mapping[str, str], find: FindItemSets) -> None:
        """Define the sets; see :meth:`flask_ibi_archive.IBIArchive.oai_sets`.

        :raises ValueError: if a setSpec is wrong or too long.
        """
        for spec in names:
            if not SET_SPEC.match(spec) or len(spec) > MAX_SPEC:
                raise ValueError(f"{spec!r} is not a setSpec, such as 'theses:master'")
        self.names, self.find = dict(names), find

    def list_names(self, types: Iterable[str]) -> dict[str, str]:
        """Return the names of all sets for people, by setSpec.

        These are the sets that every Archive has, those of the types, and those of the host.

        :param types: the setSpecs of the types of the items.
        """
        return {**_SHARED, **{spec: TYPES[spec] for spec in types}, **self.names}

    def list_sets(self, work: Work) -> set[str]:
        """Return the setSpecs of the sets to which an item belongs.

        An item in the set "a:b" is also in the set "a" (OAI-PMH 2.0, 2.6). If the function of the
        host fails or returns an unknown set, this is logged, and the item belongs to no set of the
        host.
        """
        found = {*find_default_sets(work)} - self.names.keys()
        failure = HostFunctionFailed(f"the sets of the item {work.ibi} can't be found")
        with suppress(HostFunctionFailed), logging_failure(failure):
            own: set[str] = set()
            for spec in () if self.find is None else self.find(work):
                if spec not in self.names:
                    raise ValueError(f"{spec!r} is not one of the sets {', '.join(self.names)}")
                parts = spec.split(":")
                own.update(":".join(parts[:count]) for count in range(1, len(parts) + 1))
            found |= own & self.names.keys()
        return found


# --- requests ----------------------------------------------------------------------------------

TOKEN = "resumptionToken"
PREFIX = "metadataPrefix"
#: The arguments of each verb: those that are required, and the others. A resumption token excludes
#: all other arguments.
VERBS: Mapping[str, tuple[Set[str], Set[str]]] = {
    "Identify": (set(), set()),
    "ListMetadataFormats": (set(), {"identifier"}),
    "ListSets": (set(), {TOKEN}),
    "ListIdentifiers": ({PREFIX}, {"from", "until", "set", TOKEN}),
    "ListRecords": ({PREFIX}, {"from", "until", "set", TOKEN}),
    "GetRecord": ({"identifier", PREFIX}, set()),
}

_PATTERNS = {PREFIX: re.compile(rf"{_WORD}\Z"), "set": SET_SPEC}
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)?\Z")
#: Matches the identifiers that a response may repeat: the characters of URIs (RFC 3986).
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:([A-Za-z0-9._~:/?@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+\Z")

#: The position of a record: its datestamp, and the number of the change. If the items are in a
#: host's catalogue, the second value is the identifier of the item.
Position: TypeAlias = tuple[datetime, int | str]


class Selection(Struct, frozen=True, array_like=True):
    """The records for which a harvester asks. A resumption token contains a selection.

    :param prefix: the name of the metadata format.
    :param since: the earliest datestamp (the argument ``from``), or None.
    :param until: the latest datestamp, or None.
    :param set_spec: the set, or None for all records.
    :param after: the position after which the list continues; None: the list begins.
    :param only_theses: whether the format is for theses alone.
    """

    prefix: str
    since: datetime | None = None
    until: datetime | None = None
    set_spec: str | None = None
    after: Position | None = None
    only_theses: bool = False

    @property
    def specs(self) -> list[str]:
        """The setSpecs of the selection: a record must belong to all of them.

        If the format is for theses alone, the hidden set of theses is one of them.
        """
        hidden = [THESES] if self.only_theses else []
        return hidden if self.set_spec is None else [*hidden, self.set_spec]


def parse_arguments(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Check the arguments of a request, and return them, with the verb, by name.

    :param pairs: the names and values in the query or in the body of the request.
    :raises HarvestError: badVerb or badArgument.
    """
    arguments: dict[str, str] = {}
    repeated = []
    for name, value in pairs:
        if name in arguments:
            repeated.append(name)
        arguments[name] = value
    verb = arguments.get("verb")
    if verb is None or verb not in VERBS or "verb" in repeated:
        problem = "the argument verb is missing" if verb is None else f"{verb!r} is not a verb"
        if "verb" in repeated:
            problem = "the argument verb is repeated"
        raise HarvestError("badVerb", f"{problem}; use {', '.join(VERBS)}")
    if repeated:
        raise HarvestError("badArgument", f"the argument {repeated[0]!r} is repeated")
    names = arguments.keys() - {"verb"}
    required, optional = VERBS[verb]
    if TOKEN in names and TOKEN in optional:
        if len(names) > 1:
            raise HarvestError("badArgument", f"{TOKEN} excludes all other arguments")
    elif unknown := sorted(names - required - optional):
        raise HarvestError("badArgument", f"{verb} has no argument {unknown[0]!r}")
    elif missing := sorted(required - names):
        raise HarvestError("badArgument", f"{verb} needs the argument {missing[0]}")
    for name, pattern in _PATTERNS.items():
        if name in arguments and not pattern.match(arguments[name]):
            raise HarvestError("badArgument", f"{name}: {arguments[name]!r} has a wrong form")
    return arguments


def select_repeatable(arguments: Mapping[str, str]) -> dict[str, str]:
    """Return those arguments that the response may repeat: without a malformed identifier.

    An identifier that is not a URI would make the response invalid against the XML schema.
    """
    return {
        name: value
        for name, value in arguments.items()
        if name != "identifier" or _URI.match(value)
    }


def parse_selection(arguments: Mapping[str, str]) -> Selection:
    """Return the selection that the arguments of ListIdentifiers or ListRecords ask for.

    :raises HarvestError: badArgument, if a date is wrong.
    """
    dates = [arguments[name] for name in ("from", "until") if name in arguments]
    if len({len(text) for text in dates}) > 1:
        raise HarvestError("badArgument", "from and until have different granularities")
    since, until = _parse_date(arguments, "from"), _parse_date(arguments, "until")
    if since is not None and until is not None and since > until:
        raise HarvestError("badArgument", "from is later than until")
    return Selection(arguments[PREFIX], since, until, arguments.get("set"))


def _parse_date(arguments: Mapping[str, str], name: str) -> datetime | None:
    """Return the time in the argument ``from`` or ``until``; None if the argument is missing.

    A day as ``until`` means the last second of this day.

    :raises HarvestError: badArgument, if the argument is not a date.
    """
    text = arguments.get(name)
    if text is None:
        return None
    found = _DATE.match(text)
    with suppress(ValueError, OverflowError):  # such as February 30
        if found:
            time = datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=timezone.utc)
            is_last_day = name == "until" and found[1] is None
            return time + timedelta(days=1, seconds=-1) if is_last_day else time
    raise HarvestError(
        "badArgument", f"{name}: {text!r} is not a UTC date YYYY-MM-DD or YYYY-MM-DDThh:mm:ssZ"
    )


def bad_token() -> HarvestError:
    """Return the error for a resumption token that this Archive has not issued. Do not raise it."""
    return HarvestError(
        "badResumptionToken", "this Archive has not issued the token; begin the list again"
    )


_NAMESPACE = "http://www.openarchives.org/OAI/2.0/"
_IDENTIFIER_NAMESPACE = f"{_NAMESPACE}oai-identifier"
_ROOT = (
    f'<OAI-PMH xmlns="{_NAMESPACE}" {XSI} '
    f'xsi:schemaLocation="{_NAMESPACE} {_NAMESPACE}OAI-PMH.xsd">'
)
#: Matches what precedes the root element of a document. It must be removed before the document
#: becomes a part of another document.
_PROLOGUE = re.compile(r"\ufeff?\s*(<\?xml[^>]*\?>\s*)?(<!DOCTYPE[^>\[]*>\s*)?")
#: Matches the host names that an identifier of the scheme oai-identifier may contain.
_DOMAIN = re.compile(r"[A-Za-z][A-Za-z0-9-]*(\.[A-Za-z][A-Za-z0-9-]*)+\Z")


@dataclass(frozen=True, slots=True)
class HarvestedRecord:
    """A record for a harvester.

    :param ibi: the identifier of the item.
    :param datestamp: the time of the last change or of the deletion.
    :param sets: the sets to which the item belongs, or belonged when it was deleted.
    :param position: the position of the record in the list of all changes.
    :param work: the description of the item; None for a deleted item, or if it was not requested.
    """

    ibi: str
    datestamp: datetime
    is_deleted: bool = False
    sets: tuple[str, ...] = ()
    position: Position | None = None
    work: Work | None = None


def make_identifier(host: str, ibi: str) -> str:
    """Return the OAI identifier of an item (OAI identifier format, 2.0)."""
    return f"oai:{host}:{ibi}"


def parse_oai_identifier(host: str, identifier: str) -> str:
    """Return the IBI in an OAI identifier, in canonical case.

    :raises HarvestError: idDoesNotExist, if the text is not an identifier of this Archive.
    """
    prefix = make_identifier(host, "")
    with suppress(ValueError):
        if identifier.lower().startswith(prefix.lower()):
            return parse_identifier(identifier[len(prefix) :]).text
    raise HarvestError("idDoesNotExist", f"{identifier!r} is not the identifier of a record")


def write_response(base_url: str, now: datetime, arguments: Mapping[str, str], body: str) -> str:
    """Return a complete response as XML.

    :param now: the time of the response.
    :param arguments: the arguments of the request; empty if the verb or an argument is wrong.
    :param body: the XML element that answers the verb, or those of the errors.
    """
    return (
        f"{DECLARATION}{_ROOT}\n"
        f"{element('responseDate', format_timestamp(now))}\n"
        f"{element('request', base_url, arguments)}\n"
        f"{body}\n</OAI-PMH>\n"
    )


def write_error(error: HarvestError) -> str:
    """Return the XML element of an error."""
    return element("error", error.message, {"code": error.code})


def write_identify(
    *, name: str, host: str, base_url: str, admin_email: str, earliest: datetime
) -> str:
    """Return the answer to Identify.

    :param host: the host name in the identifiers of records.
    :param base_url: the URL of the OAI-PMH interface.
    """
    lines = _list_elements(
        repositoryName=name,
        baseURL=base_url,
        protocolVersion="2.0",
        adminEmail=admin_email,
        earliestDatestamp=format_timestamp(earliest),
        deletedRecord="persistent",
        granularity="YYYY-MM-DDThh:mm:ssZ",
    )
    if _DOMAIN.match(host):
        location = f"{_IDENTIFIER_NAMESPACE} {_IDENTIFIER_NAMESPACE}.xsd"
        parts = _list_elements(
            scheme="oai",
            repositoryIdentifier=host,
            delimiter=":",
            sampleIdentifier=make_identifier(host, "8JMKD3MGP8W/35MME4E"),
        )
        space = f' xmlns="{_IDENTIFIER_NAMESPACE}" {XSI} xsi:schemaLocation="{location}"'
        lines.append(_wrap("description", [_wrap("oai-identifier", parts, space)]))
    return _wrap("Identify", lines)


def write_formats(formats: Iterable[MetadataFormat]) -> str:
    """Return the answer to ListMetadataFormats."""
    return _wrap_all(
        "ListMetadataFormats",
        "metadataFormat",
        [
            {
                "metadataPrefix": format.name,
                "schema": format.schema or "",
                "metadataNamespace": format.namespace or "",
            }
            for format in formats
        ],
    )


def write_sets(sets: Mapping[str, str]) -> str:
    """Return the answer to ListSets.

    :param sets: the name of each set, by its setSpec.
    """
    listed = [{"setSpec": spec, "setName": name} for spec, name in sets.items()]
    return _wrap_all("ListSets", "set", listed)


def _wrap_all(root: str, name: str, members: Iterable[Mapping[str, str]]) -> str:
    return _wrap(root, [_wrap(name, _list_elements(**member)) for member in members])


def _list_elements(**texts: str) -> list[str]:
    return [element(name, text) for name, text in texts.items()]


def write_header(host: str, record: HarvestedRecord) -> str:
    """Return the header of a record as an XML element."""
    lines = [
        element("identifier", make_identifier(host, record.ibi)),
        element("datestamp", format_timestamp(record.datestamp)),
        *(element("setSpec", spec) for spec in record.sets),
    ]
    return _wrap("header", lines, ' status="deleted"' if record.is_deleted else "")


def write_record(host: str, record: HarvestedRecord, document: bytes | None) -> str:
    """Return a record as an XML element.

    :param document: the metadata as an XML document; None for a deleted item.
    :raises ValueError: if the document can't be a part of the response, because it is not
        well-formed, not UTF-8, or has declarations of its own.
    """
    lines = [write_header(host, record)]
    if document is not None:
        text = _PROLOGUE.sub("", document.decode(), count=1).rstrip()
        _check_part(text)
        lines.append(f"<metadata>{text}</metadata>")
    return _wrap("record", lines)


def _check_part(text: str) -> None:
    """Raise ValueError if a text is not an XML document that can be a part of another document."""

    def refuse(*_: object) -> None:
        raise ValueError("the metadata have declarations, which can't be part of a response")

    parser = ParserCreate(namespace_separator=" ")  # this checks the prefixes of namespaces
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(text, True)
    except ExpatError as error:
        raise ValueError(f"the metadata are not well-formed XML: {error}") from error


def write_list(verb: str, entries: Iterable[str], token: str | None) -> str:
    """Return the answer to ListIdentifiers or ListRecords as an XML element.

    :param entries: the XML elements of the headers or of the records.
    :param token: the token for the next part; "" at the end of a list with several parts; None if
        the list has only one part.
    """
    end = [] if token is None else [element("resumptionToken", token)]
    return _wrap(verb, [*entries, *end])


def _wrap(name: str, lines: Iterable[str], attributes: str = "") -> str:
    return "\n".join([f"<{name}{attributes}>", *lines, f"</{name}>"])
