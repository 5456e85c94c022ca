"""Answers harvesters (OAI-PMH)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from flask import Response, abort, request
from itsdangerous import BadData, URLSafeSerializer
from msgspec import ValidationError, convert, to_builtins
from msgspec.structs import replace
from werkzeug.exceptions import HTTPException, ServiceUnavailable

from flask_ibi_archive.archive.harvest import harvesting, messages
from flask_ibi_archive.archive.harvest.messages import PREFIX, TOKEN, HarvestError
from flask_ibi_archive.archive.items.access import HostFunctionFailed, cannot_write, logging_failure
from flask_ibi_archive.archive.items.changes import EPOCH
from flask_ibi_archive.archive.items.pages import answering, write_metadata
from flask_ibi_archive.archive.service.catalogue import CannotList
from flask_ibi_archive.core.protocol.hosts import extract_host
from flask_ibi_archive.core.records.formats import MetadataFormat
from flask_ibi_archive.server.config import ArchiveConfig
from flask_ibi_archive.server.web import responses
from flask_ibi_archive.server.web.requests import current_archive

#: The number of records in a response.
PART = 100
#: The largest number of bytes in the body of a POST request.
MAX_BODY = 1 << 14


@answering
def answer_harvester() -> Response:
    """Answer a request of a harvester."""
    archive = current_archive()
    base_url = f"{archive.addresses.base}/ibi/oai"
    arguments: dict[str, str] = {}
    try:
        harvests = harvesting.open_harvests(archive)
        response_date = archive.clock()
        try:
            arguments = messages.parse_arguments(_read_pairs())
            response_date = harvests.publish()
            body = _Answer(harvests, archive.sets, base_url).write(arguments)
        except HarvestError as error:
            # the response repeats the arguments only if they are legal (OAI-PMH 2.0, 3.2)
            arguments = {} if error.code in ("badVerb", "badArgument") else arguments
            body = messages.write_error(error)
    except CannotList:
        abort(404)
    except harvesting.UnfinishedLog:
        # a list must not be empty; harvesters ask again (OAI-PMH 2.0, 3.1.2.2)
        raise ServiceUnavailable(retry_after=int(responses.RETRY_AFTER)) from None
    repeated = messages.select_repeatable(arguments)
    text = messages.write_response(base_url, response_date, repeated, body)
    response = responses.set_headers(
        Response(text, content_type="text/xml; charset=utf-8"), private=False
    )
    responses.allow_origins(response)
    return responses.hide_from_search(response)


def _read_pairs() -> Iterable[tuple[str, str]]:
    """Return the arguments in the query, or in the form of a POST request.

    :raises HarvestError: badArgument, if the form is too long.
    """
    if request.method != "POST":
        return request.args.items(multi=True)
    request.max_content_length = MAX_BODY
    try:
        return request.form.items(multi=True)
    except HTTPException as error:
        raise HarvestError("badArgument", "the form can't be read, or is too long") from error


class _Answer:
    """Answers one request.

    :param base_url: the URL of the OAI-PMH interface.
    """

    def __init__(
        self, harvests: harvesting.Harvests, sets: messages.HarvestSets, base_url: str
    ) -> None:
        self._harvests = harvests
        self._base_url = base_url
        self._config: ArchiveConfig = current_archive().config
        self._host = extract_host(self._config.archive_address)
        self._sets = sets
        keys = self._config.secret_keys
        self._serializer = URLSafeSerializer(
            [key if isinstance(key, bytes) else key.encode() for key in keys], salt="ibi-oai-pmh"
        )
        self._formats = {each.name: each for each in current_archive().formats if each.is_xml}

    def write(self, arguments: Mapping[str, str]) -> str:
        """Return the element that answers the verb.

        :raises HarvestError: if the request is wrong, or if no record fits the request.
        """
        verbs: dict[str, Callable[[Mapping[str, str]], str]] = {
            "Identify": self._identify,
            "ListMetadataFormats": self._list_formats,
            "ListSets": self._list_sets,
            "ListIdentifiers": self._list,
            "ListRecords": self._list,
            "GetRecord": self._get_record,
        }
        return verbs[arguments["verb"]](arguments)

    def _identify(self, arguments: Mapping[str, str]) -> str:
        # the XML schema demands a dot
        mail_host = self._host if "." in self._host else f"{self._host}.localdomain"
        return messages.write_identify(
            name=self._config.archive_name,
            host=self._host,
            base_url=self._base_url,
            # every host has this mailbox (RFC 5321, 4.5.1)
            admin_email=self._config.archive_admin_email or f"postmaster@{mail_host}",
            earliest=self._harvests.find_earliest() or EPOCH,
        )

    def _list_formats(self, arguments: Mapping[str, str]) -> str:
        if "identifier" not in arguments:
            return messages.write_formats(self._formats.values())
        record = self._find(arguments)
        if record.is_deleted:
            raise HarvestError("noMetadataFormats", "the item was deleted")
        return messages.write_formats(
            format for format in self._formats.values() if _is_provided(record, format)
        )

    def _list_sets(self, arguments: Mapping[str, str]) -> str:
        if TOKEN in arguments:
            raise messages.bad_token()
        return messages.write_sets(self._sets.list_names(self._harvests.list_types()))

    def _get_record(self, arguments: Mapping[str, str]) -> str:
        format = self._find_format(arguments[PREFIX])
        harvested = self._find(arguments)
        if not _is_provided(harvested, format):
            raise HarvestError("cannotDisseminateFormat", f"{format.name} describes theses alone")
        try:
            record = self._write_record(harvested, format)
        except HostFunctionFailed as error:
            raise HarvestError("cannotDisseminateFormat", str(error)) from error
        return f"<GetRecord>\n{record}\n</GetRecord>"

    def _find(self, arguments: Mapping[str, str]) -> messages.HarvestedRecord:
        identifier = arguments["identifier"]
        ibi = messages.parse_oai_identifier(self._host, identifier)
        record = self._harvests.find_record(ibi)
        if record is None:
            raise HarvestError("idDoesNotExist", f"{identifier!r} is not known")
        return record

    def _list(self, arguments: Mapping[str, str]) -> str:
        """Return the answer to ListIdentifiers or ListRecords."""
        verb, token = arguments["verb"], arguments.get(TOKEN)
        selection = (
            messages.parse_selection(arguments) if token is None else self._read_token(token)
        )
        format = self._find_format(selection.prefix)
        selection = replace(selection, only_theses=format.only_theses)
        with_works = verb == "ListRecords"

        def write(record: messages.HarvestedRecord) -> str:
            if with_works:
                return self._write_record(record, format)
            return messages.write_header(self._host, record)

        part = harvesting.list_part(self._harvests, selection, PART, with_works, write)
        if part.skipped and not part.entries:
            raise HarvestError(
                "cannotDisseminateFormat",
                f"{part.skipped} records can't be written in the format {format.name},"
                " and no other record was found",
            )
        if not part.entries:
            raise HarvestError("noRecordsMatch", "no record fits the arguments")
        # the last part of a list has an empty token, if the list has several parts
        next_token = None if token is None else ""
        if part.rest is not None:
            if token is None:
                # the list is counted once; later the token tells its size
                selection = replace(selection, size=self._harvests.count(selection))
            cursor = selection.cursor + len(part.entries)
            rest = replace(part.rest, size=selection.size, cursor=cursor)
            next_token = self._serializer.dumps(to_builtins(rest))
        return messages.write_list(verb, part.entries, next_token, selection)

    def _write_record(self, record: messages.HarvestedRecord, format: MetadataFormat) -> str:
        """Return a record as XML.

        :raises HostFunctionFailed: if the metadata can't be written in the format.
        """
        if record.work is None:
            return messages.write_record(self._host, record, None)
        with logging_failure(cannot_write(record.work.ibi, format.name)):
            document = write_metadata(format, record.work)
            return messages.write_record(self._host, record, document)

    def _find_format(self, name: str) -> MetadataFormat:
        format = self._formats.get(name)
        if format is None:
            known = ", ".join(self._formats)
            raise HarvestError("cannotDisseminateFormat", f"{name!r} is not one of {known}")
        return format

    def _read_token(self, token: str) -> messages.Selection:
        try:
            selection = convert(self._serializer.loads(token), messages.Selection)
        except (BadData, ValidationError) as error:  # or an earlier version wrote the token
            raise messages.bad_token() from error
        if selection.prefix not in self._formats or selection.after is None:
            raise messages.bad_token()
        return selection


def _is_provided(record: messages.HarvestedRecord, format: MetadataFormat) -> bool:
    """Return whether a record is provided in a format; a deletion is reported in every format."""
    work = record.work
    return work is None or work.type.is_thesis or not format.only_theses
