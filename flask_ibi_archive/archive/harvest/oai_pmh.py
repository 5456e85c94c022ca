"""Lists the changes of items with their descriptions, and answers harvesters (OAI-PMH)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias

from flask import Response, abort, request
from itsdangerous import BadData, URLSafeSerializer
from msgspec import ValidationError, convert, to_builtins
from msgspec.structs import replace
from sqlalchemy import ColumnElement, Connection, func, select
from werkzeug.exceptions import HTTPException, ServiceUnavailable

from flask_ibi_archive.archive.harvest import messages
from flask_ibi_archive.archive.harvest.messages import HarvestError
from flask_ibi_archive.archive.items import changes, ownership, read
from flask_ibi_archive.archive.items.access import HostFunctionFailed, cannot_write, logging_failure
from flask_ibi_archive.archive.items.changes import EPOCH, Appearance, Change
from flask_ibi_archive.archive.items.item_pages import answering, write_metadata
from flask_ibi_archive.archive.items.tables import Item
from flask_ibi_archive.archive.service.catalogue import CannotList, RecordSource
from flask_ibi_archive.core.protocol.hosts import extract_host
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.formats import MetadataFormat
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.server.config import ArchiveConfig
from flask_ibi_archive.server.web import responses
from flask_ibi_archive.server.web.requests import current_archive

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: If a request finds no changes, and the end of the log is behind the clock by MAX_LAG, the request
#: moves the end. It waits at most LOCK_TIMEOUT seconds for other writers.
MAX_LAG, LOCK_TIMEOUT = timedelta(minutes=1), 0.1

#: A change in a host's catalogue may be committed this long after the time that it states.
MAX_DELAY = timedelta(minutes=5)

#: One request skips at most this number of records that can't be written. If there are more, the
#: function that writes the format is wrong, rather than the items.
MAX_SKIPPED = 1_000


class UnfinishedLog(Exception):
    """Raised if a list would be incomplete, because too many changes still have no numbers."""


def describe_items(
    archive: Archive, connection: Connection, items: Sequence[int]
) -> dict[int, Appearance]:
    """Return what harvesters see of items, by row ID. Items that harvesters do not see are missing.

    An item without a title can't be described in oai_dc as aggregators demand. Since OAI-PMH
    demands oai_dc of every item (2.0, 2.3), harvesters do not see the item until it has a title.
    """
    appearances = {}
    for item_id, work in read.read_works(archive, connection, items).items():
        if work.has_title:
            sets = f" {' '.join(sorted(archive.sets.list_sets(work)))} "
            digest = sha256(f"{work!r}{sets}".encode(errors="surrogatepass")).hexdigest()
            appearances[item_id] = Appearance(sets, digest)
    return appearances


class StoredHarvests:
    """The records of the items in the tables of this package; see :mod:`.items.changes`."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._archive_id = archive.served().id
        self._end, self._has_notes = EPOCH, False
        self._deadline = monotonic() + changes.PUBLISHING_SHARE * archive.config.database_timeout

    def publish(self) -> datetime:
        """Number the changes since the last request, so that they have datestamps.

        :returns: the time of the answer to the harvester. It is never later than the clock of this
            server, and all later changes get this datestamp or a later one.
        """
        database, now = self._archive.database, self._archive.own_context.now()
        self._end, self._has_notes = database.read(
            lambda connection: changes.read_end(connection, self._archive_id)
        )
        if self._has_notes:
            self._number_changes()
        elif now - self._end >= MAX_LAG:
            with suppress(NotReady):  # for example if the database is read-only, or locked
                with database.writing(LOCK_TIMEOUT) as connection:
                    _, end = changes.move_end(connection, self._archive_id, now)
                self._end = end
        return min(self._end, now)

    def publish_more(self, until: datetime | None = None) -> bool:
        """Number some of the changes that have no numbers yet.

        :param until: the latest datestamp that the caller wants, or None.
        :returns: True if the caller must call again; False if all changes that it wants have
            numbers.
        :raises UnfinishedLog: if this request has no more time.
        """
        if not self._has_notes or (until is not None and until < self._end):
            return False
        if monotonic() >= self._deadline:
            raise UnfinishedLog
        self._number_changes()
        return True

    def _number_changes(self) -> None:
        with self._archive.database.writing() as connection:
            self._end, self._has_notes = self._archive.number_changes(connection)

    def list_records(
        self, selection: messages.Selection, limit: int, with_works: bool
    ) -> list[messages.HarvestedRecord]:
        """Return the first records of a selection.

        :param limit: the maximum number of records.
        :param with_works: True to read also the descriptions of the items.
        """
        return self._read(self._find_conditions(selection), limit, with_works)

    def find_record(self, ibi: str) -> messages.HarvestedRecord | None:
        """Return the record of an item; None if harvesters must not see the item.

        :param ibi: an identifier of the item in canonical case.
        """
        owners = self._archive.database.read(
            lambda connection: ownership.find_owners(connection, self._archive_id, [ibi])
        )
        if ibi not in owners:
            return None
        conditions = [Change.item_id == owners[ibi].id, Change.is_deleted.is_not(None)]
        # the item may be new, and have no number yet
        while not (records := self._read(conditions, 1, True)) and self.publish_more():
            pass
        return next(iter(records), None)

    def _read(
        self, conditions: Sequence[ColumnElement[bool]], limit: int, with_works: bool
    ) -> list[messages.HarvestedRecord]:
        """Return the first records that satisfy conditions; see :meth:`list_records`."""
        ibi, datestamp = func.coalesce(Item.ibip, Item.rep), changes.select_datestamp()
        statement = (
            select(Change.item_id, Change.number, Change.is_deleted, Change.sets)
            .add_columns(ibi.label("ibi"), datestamp.label("datestamp"))
            .join(Item, Item.id == Change.item_id)
            .where(*conditions)
            .order_by(Change.number)
            .limit(limit)
        )

        database, works, pending = self._archive.database, {}, []
        if with_works:
            with database.snapshot() as connection:
                rows = connection.execute(statement).all()
                live = [row.item_id for row in rows if not row.is_deleted]
                works = read.read_works(self._archive, connection, live) if live else {}
                pending = changes.find_pending(connection, live) if live else []
        else:
            rows = database.read_rows(statement)
        if pending:
            with database.writing() as connection:
                changes.renew(connection, self._archive_id, pending)
            self._has_notes = True
        records = []
        for row in rows:
            # an item without a work was deleted or hidden after its change was numbered
            is_deleted = row.is_deleted or (with_works and row.item_id not in works)
            sets = tuple(spec for spec in row.sets.split() if spec != messages.THESES)
            found = row.ibi, row.datestamp, is_deleted, sets, (row.datestamp, row.number)
            records.append(messages.HarvestedRecord(*found, works.get(row.item_id)))
        return records

    def _find_conditions(self, selection: messages.Selection) -> list[ColumnElement[bool]]:
        """Return the SQL conditions that the changes of a selection satisfy."""
        conditions = changes.is_within(self._archive_id, selection.since, selection.until)
        conditions.append(Change.is_deleted.is_not(None))
        # a set has a space before and after it, so that this finds whole names only
        conditions += [
            func.replace(Change.sets, f" {spec} ", "") != Change.sets for spec in selection.specs
        ]
        if selection.after is not None:
            conditions.append(Change.number > selection.after[1])
        return conditions

    def list_types(self) -> list[str]:
        """Return the setSpecs of those types of items to which a record belongs, sorted."""
        statement = select(Change.sets).where(Change.archive_id == self._archive_id).distinct()
        rows = self._archive.database.read_rows(statement)
        return sorted({spec for row in rows for spec in row.sets.split()} & messages.TYPES.keys())

    def find_earliest(self) -> datetime | None:
        """Return the earliest datestamp; None if there are no records."""
        is_seen = Change.archive_id == self._archive_id, Change.is_deleted.is_not(None)
        datestamps = select(changes.select_datestamp()).select_from(Change).where(*is_seen)
        statement = datestamps.order_by(Change.number).limit(1)
        return self._archive.database.read(lambda connection: connection.scalar(statement))


class HostHarvests:
    """The records of the items in the catalogue of a host."""

    def __init__(self, archive: Archive, records: RecordSource) -> None:
        self._archive = archive
        self._records = records

    def publish(self) -> datetime:
        """Return the time of the answer to the harvester.

        The time is so early that the next visit of the harvester also finds late commits.
        """
        return self._archive.clock() - MAX_DELAY

    def publish_more(self, until: datetime | None = None) -> bool:
        """Return False: changes of a host need no numbers."""
        return False

    def list_records(
        self, selection: messages.Selection, limit: int, with_works: bool
    ) -> list[messages.HarvestedRecord]:
        """Return the first records of a selection; see :meth:`StoredHarvests.list_records`."""
        records: list[messages.HarvestedRecord] = []
        after: tuple[datetime, str] | None = selection.after  # type: ignore[assignment]
        while True:
            batch = list(self._records.iterate_changes(selection.since, after, limit))
            for after, item in batch:
                # datestamps are whole seconds, but the times of the catalogue may be more precise
                datestamp = after[0].replace(microsecond=0)
                if selection.until is not None and datestamp > selection.until:
                    return records
                if record := self._describe(item, after, selection.specs):
                    records.append(record)
                    if len(records) == limit:
                        return records
            if len(batch) < limit:
                return records

    def find_record(self, ibi: str) -> messages.HarvestedRecord | None:
        """Return the record of an item; None if harvesters must not see the item."""
        item = self._records.find_record(ibi)
        if item is None:
            return None
        assert item.timestamp is not None  # parse_catalogue_record() has checked this
        return self._describe(item, (item.timestamp, ""))

    def _describe(
        self, item: Record | None, position: tuple[datetime, str], specs: Sequence[str] = ()
    ) -> messages.HarvestedRecord | None:
        """Return the record of an item; None if harvesters must not see it, or it is in no set.

        :param specs: the sets to all of which the item must belong.
        """
        is_deleted = item is not None and item.state == State.DELETED
        if item is None or not (is_deleted or read.is_public(item)):
            return None
        work = read.describe_host_item(self._archive, self._records.find_record, item)
        sets = self._archive.sets.list_sets(work)
        # an item without a title can't be described in oai_dc; a deleted one is not described
        if not (is_deleted or work.has_title) or not sets.issuperset(specs):
            return None
        datestamp = position[0].replace(microsecond=0)
        shown = tuple(sorted(sets - {messages.THESES}))
        ibi, described = item.ibip or item.identifiers[0], None if is_deleted else work
        return messages.HarvestedRecord(ibi, datestamp, is_deleted, shown, position, described)

    def list_types(self) -> list[str]:
        """Return the sets of all types, even unused ones.

        To find the used ones, all records would have to be read.
        """
        return [*messages.TYPES]

    def find_earliest(self) -> datetime | None:
        """Return the earliest datestamp; None if there are no records."""
        first = next(self._records.iterate_changes(None, None, 1), None)
        return None if first is None else first[0][0].replace(microsecond=0)


Harvests: TypeAlias = StoredHarvests | HostHarvests


def open_harvests(archive: Archive) -> Harvests:
    """Return the object that reads the records of an Archive for harvesters."""
    records = archive.items.records
    if records is None:
        return StoredHarvests(archive)
    return HostHarvests(archive, records)


@dataclass
class Part:
    """A part of a list.

    :ivar entries: the records as XML.
    :ivar skipped: the number of records left out because they could not be written as XML.
    :ivar rest: the selection of the rest of the list; None at the end of the list.
    """

    entries: list[str] = field(default_factory=list)
    skipped: int = 0
    rest: messages.Selection | None = None


def list_part(
    harvests: Harvests,
    selection: messages.Selection,
    limit: int,
    with_works: bool,
    write: Callable[[messages.HarvestedRecord], str],
) -> Part:
    """Return the next part of a list.

    The next part must not be empty (OAI-PMH 2.0, 3.5). Therefore a part has a rest only if a later
    record can be written. After :data:`MAX_SKIPPED` records that can't be written, the search ends.

    :param limit: the maximum number of records in the part.
    :param write: writes a record; it raises HostFunctionFailed if this is impossible.
    """
    part = Part()
    position = selection.after
    for record in _iterate_records(harvests, selection, limit + 1, with_works):
        try:
            entry = write(record)
        except HostFunctionFailed:
            part.skipped += 1
        else:
            if len(part.entries) == limit:
                part.rest = replace(selection, after=position)
                break
            part.entries.append(entry)
        position = record.position
        if part.skipped == MAX_SKIPPED:
            part.rest = replace(selection, after=position)
            break
    is_empty = not part.entries and not part.skipped
    if is_empty and selection.after is not None and selection.until is not None:
        # The part must not be empty, but all remaining records have changed again, and are now
        # later than the argument until. Therefore the first of them is returned nevertheless.
        part = list_part(harvests, replace(selection, until=None), 1, with_works, write)
        part.rest = None
    return part


def _iterate_records(
    harvests: Harvests, selection: messages.Selection, limit: int, with_works: bool
) -> Iterator[messages.HarvestedRecord]:
    """Yield all records of a selection.

    :param limit: the number of records that are read together.
    """
    while True:
        records = harvests.list_records(selection, limit, with_works)
        yield from records
        if records:
            selection = replace(selection, after=records[-1].position)
        if len(records) < limit and not harvests.publish_more(selection.until):
            return


# --- answers --------------------------------------------------------------------------------------


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
        harvests = open_harvests(archive)
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
    except UnfinishedLog:
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
    """Return the names and values of the arguments, from the query or from the body of a POST.

    :raises HarvestError: badArgument, if the body is too long.
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

    def __init__(self, harvests: Harvests, sets: messages.HarvestSets, base_url: str) -> None:
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
        """Return the XML element that answers a request.

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
            name=self._config.archive_name
            or f"IBI Archive {current_archive().served().service_ibi}",
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
        if messages.TOKEN in arguments:
            raise messages.bad_token()
        return messages.write_sets(self._sets.list_names(self._harvests.list_types()))

    def _get_record(self, arguments: Mapping[str, str]) -> str:
        format = self._find_format(arguments[messages.PREFIX])
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
        verb, token = arguments["verb"], arguments.get(messages.TOKEN)
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

        part = list_part(self._harvests, selection, PART, with_works, write)
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
            next_token = self._serializer.dumps(to_builtins(part.rest))
        return messages.write_list(verb, part.entries, next_token)

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
    """Return whether a record is available in a format. A deletion is reported in every format."""
    work = record.work
    return work is None or work.type.is_thesis or not format.only_theses
