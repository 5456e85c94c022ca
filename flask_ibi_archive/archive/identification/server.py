"""The identification server: gives identifiers to programs, and deposits items for them.

"The server ... executes Algorithms 1, 2 and 3 and returns the identifier of the item" ([G] 6). The
operations are those of the Archive. This module adds two rules for programs: a program sees and
changes only what it made, and a repeated request with the same ``Idempotency-Key`` is carried out
once.

The identifiers that a program got are stored in the transaction of the operation itself, together
with the ``Idempotency-Key``, which is unique for each program: an identifier that a program got is
never lost, and the answer to a repeated request consists of the identifiers of the first one.

The answers are at ``/ibi/identifiers``. Errors are problem details (RFC 9457). ``openapi.json``
describes the requests and the answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa
from flask import Response, jsonify, request
from sqlalchemy.orm import Mapped, mapped_column

from flask_ibi_archive.archive.identification.keys import PATH, ApiKey, find_key
from flask_ibi_archive.archive.items import item_record, operations, ownership
from flask_ibi_archive.archive.items.minting import Minted, StoreMinted
from flask_ibi_archive.archive.items.tables import Base, Item, ReservationRow
from flask_ibi_archive.archive.items.write import ItemStore
from flask_ibi_archive.archive.service import problems
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records import record as records
from flask_ibi_archive.core.records import values
from flask_ibi_archive.core.records.values import FieldError
from flask_ibi_archive.errors import StorageError, UnknownItem
from flask_ibi_archive.server.database.dialects import Key, UTCDateTime
from flask_ibi_archive.server.web.requests import current_archive

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The largest number of identifiers in a request, and in a part of a list.
MAX_COUNT = 1000
#: The largest number of bytes in the body of a request.
MAX_BODY = 1 << 20
#: The fields of a record that the Archive sets. A program states the others.
_SET_HERE = ("rep", "ibip", "key", "timestamp", "original_archive", "tombstone")
STATED = [name for name in records.FIELDS if name not in (*_SET_HERE, "state")]
#: The text for an identifier that is unknown to the program.
_UNKNOWN = "this program has requested no such identifier"
_REPEAT_KEY = "Idempotency-Key"
_match_repeat_key = re.compile(r'("?)([!#-~]{1,255})\1').fullmatch


class IssuedIdentifier(Base):
    """A row for an identifier that a program requested: its repository name and its IBIp."""

    __tablename__ = "ibi_issued_identifier"
    __table_args__: Any = (
        sa.UniqueConstraint("rep", name="uq_ibi_issued_identifier_rep"),
        sa.UniqueConstraint("ibip", name="uq_ibi_issued_identifier_ibip"),
        # of two equal requests at the same time, only one is carried out
        sa.UniqueConstraint(
            "key_id", "repeat_key", "number", name="uq_ibi_issued_identifier_request"
        ),
        sa.Index("ix_ibi_issued_identifier_key", "key_id", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    key_id: Mapped[int] = mapped_column(
        Key, sa.ForeignKey("ibi_api_key.id", name="fk_ibi_issued_identifier_key")
    )
    #: The Idempotency-Key of the request, or None.
    repeat_key: Mapped[str | None] = mapped_column(sa.String(255))
    #: The SHA-256 of the content of the request, by which another request is recognised.
    content_hash: Mapped[str] = mapped_column(sa.String(64))
    #: The place of the identifier in the answer.
    number: Mapped[int] = mapped_column(sa.Integer)
    rep: Mapped[str] = mapped_column(sa.String(255))
    ibip: Mapped[str] = mapped_column(sa.String(255))
    issued_at: Mapped[datetime] = mapped_column(UTCDateTime)


class Identification(NamedTuple):
    """What a program may know about an identifier: its status and the record of its item.

    :param status: ``issued``, ``held``, ``released``, or the state of the item.
    :param record: the record of the item; None if the identifier has no item.
    """

    minted: Minted
    status: str
    record: records.Record | None = None


class _Operations(NamedTuple):
    """What the functions of the module ``operations`` need of an Archive: its two contexts."""

    context: operations.OperationContext
    own_context: operations.OperationContext


# --- the operations ------------------------------------------------------------------------------


@dataclass(frozen=True)
class IdentificationServer:
    """The operations of a program on an Archive.

    :param archive: the Archive without the session of the host.
    :param key: the row of the key of the program. The caller checks its scopes.
    """

    archive: Archive
    key: sa.Row[Any]

    def may(self, scope: str) -> bool:
        """Return whether the key of the program has a scope, such as ``deposit``."""
        return scope in self.key.scopes.split()

    def issue(self, data: dict[str, Any], repeat_key: str | None = None) -> Sequence[Minted]:
        """Carry out a request for new identifiers, unless it was carried out before.

        :param data: the content of the request: ``record`` is the item to deposit, whose files are
            on other servers; ``reserve`` reserves an identifier with a ``note``; otherwise
            ``count`` identifiers are issued.
        :param repeat_key: the value of the header ``Idempotency-Key``, or None.
        :raises FieldError: if a field of the record is wrong, or if another request had the same
            ``Idempotency-Key``.
        """
        archive, new = self.archive, list[Minted]()
        content_hash = sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()

        def store(connection: sa.Connection, minted: list[Minted]) -> None:
            shared = {"key_id": self.key.id, "issued_at": archive.clock()}
            shared |= {"repeat_key": repeat_key, "content_hash": content_hash}
            rows = [
                {**shared, "number": number, "rep": each.rep, "ibip": each.ibip}
                for number, each in enumerate(minted)
            ]
            connection.execute(sa.insert(IssuedIdentifier), rows)
            new[:] = minted

        def work() -> None:
            if "record" in data:
                fields = self._read_fields(data["record"], None)
                context = _storing(archive.context, Item, store)
                operations.deposit(context, fields)  # type: ignore[arg-type]
            elif "reserve" in data:
                context = _storing(archive.own_context, ReservationRow, store)
                operations.reserve(context, data.get("note"))
            else:
                archive.mint(data.get("count", 1), store)

        if first := self._find_answer(repeat_key, content_hash):
            return first
        try:
            work()
        except (sa.exc.IntegrityError, StorageError):
            # another process may have answered the same request in the meantime
            if first := self._find_answer(repeat_key, content_hash):
                return first
            raise
        return new

    def _find_answer(self, repeat_key: str | None, content_hash: str) -> list[Minted]:
        """Return the identifiers that the program got when it sent the same request before.

        :returns: an empty list if the request is new, or has no ``Idempotency-Key``.
        :raises FieldError: if another request had the same ``Idempotency-Key``.
        """
        if repeat_key is None:
            return []
        row = IssuedIdentifier
        rows = self.archive.database.read_rows(
            sa.select(row.rep, row.ibip, row.content_hash)
            .where(row.key_id == self.key.id, row.repeat_key == repeat_key)
            .order_by(row.number)
        )
        if any(row.content_hash != content_hash for row in rows):
            reason = "this key was used for another request; use a new key for each request"
            raise FieldError(_REPEAT_KEY, reason)
        return [Minted(row.rep, row.ibip) for row in rows]

    def describe(self, ibi: str) -> Identification:
        """Return what the program may see of an identifier.

        :raises UnknownItem: if the program has not requested the identifier, or if there is none.
        """
        text = item_record.canonicalize(ibi)
        with self.archive.own_context.reading() as store:
            record = _find_record(store, text)
            # an alias may be an identifier of another program
            names = [text] if record is None else [record.rep or text, record.ibip or text]
            issued = self._find_issued(store.connection, names)
            if record is not None and self.may("all"):
                issued = Minted(*names)
            if issued is None:
                raise UnknownItem(text)
            if record is not None:
                return Identification(issued, record.state, record)
            status = ownership.find_status(store.connection, issued.rep) or "issued"
            return Identification(issued, status)

    def list_issued(self, after: int, limit: int) -> Sequence[sa.Row[Any]]:
        """Return the rows of the identifiers that the program may see, the oldest first.

        :param after: return only identifiers after the one with this number.
        """
        issued = sa.select(IssuedIdentifier.__table__).where(IssuedIdentifier.id > after)
        issued = issued.where(self._is_visible()).order_by(IssuedIdentifier.id).limit(limit)
        return self.archive.database.read_rows(issued)

    def put(self, ibi: str, record: object) -> Identification:
        """Replace the description of an item, or deposit the item of a reserved identifier.

        If this was done before, nothing changes: a program may repeat the request.

        :param record: the complete record of the item as a JSON object.
        :returns: the identifier as it was before the change. If it has no record, the item is new.
        :raises FieldError: if a field is wrong.
        """
        before = self.describe(ibi)
        _check_no_row(before)
        fields = self._read_fields(record, before.record)
        if before.record is None:
            _check_reserved(before)
            self.archive.deposit(fields, reserved=before.minted.rep)  # type: ignore[arg-type]
        elif fields != get_stated(before.record):
            self.archive.edit(before.minted.rep, **fields)
        return before

    def withdraw(self, ibi: str, reason: str | None, successor: str | None = None) -> None:
        """Delete an item, or release a reserved identifier.

        If this was done before, nothing changes: a program may repeat the request.

        :param reason: the reason, which the tombstone of an item shows. A reserved identifier needs
            none.
        :raises FieldError: if the reason is missing.
        """
        before = self.describe(ibi)
        _check_no_row(before)
        if before.status in (State.DELETED.value, ownership.RELEASED):
            return
        if before.record is None:
            _check_reserved(before)
            self.archive.release(before.minted.rep)
        elif reason is None:
            raise FieldError("reason", "the parameter is missing; write why the item is withdrawn")
        else:
            self.archive.delete(before.minted.rep, reason, successor=successor)

    def _find_issued(
        self, connection: sa.Connection, names: Sequence[str], *, of_all: bool = False
    ) -> Minted | None:
        """Return both forms of the first issued identifier that has one of some names.

        :param names: repository names and IBIps.
        :param of_all: whether identifiers that other programs requested are returned, too.
        :returns: None if the program may see no such identifier.
        """
        row = IssuedIdentifier
        is_named = sa.or_(row.rep.in_(names), row.ibip.in_(names))
        issued = sa.select(row.rep, row.ibip).where(is_named, self._is_visible(of_all))
        found = connection.execute(issued).first()
        return None if found is None else Minted(*found)

    def _is_visible(self, of_all: bool = False) -> sa.ColumnElement[bool]:
        """Return the SQL condition that the program may see an issued identifier.

        :param of_all: whether the program may see those of all programs, as with the scope ``all``.
        """
        keys = sa.select(ApiKey.id).where(ApiKey.archive_id == self.key.archive_id)
        if not of_all and not self.may("all"):
            keys = keys.where(ApiKey.id == self.key.id)
        return IssuedIdentifier.key_id.in_(keys)

    def _read_fields(self, data: object, before: records.Record | None) -> dict[str, Any]:
        """Check the record that a program sends, and return the fields to deposit or edit.

        A program can send back what it got: the record of an existing item may contain what only
        the Archive sets (identifiers, state, timestamp), if it is unchanged.

        :param data: the record as a JSON object.
        :param before: the present record of the item; None if the item is new.
        :raises FieldError: if a field is wrong.
        :raises StorageError: if the item has changed since the program read it.
        """
        try:
            record = records.parse_record(data, has_identifier=False)
            _check_stated(record, before)
            if not self.may("all"):
                self._check_references(record, before)
        except FieldError as error:
            raise FieldError(values.join_names("record", error.field), error.reason) from error
        return get_stated(record)

    def _check_references(self, record: records.Record, before: records.Record | None) -> None:
        """Check that a record refers to nothing that belongs to others in this Archive.

        Otherwise, a program could add an identifier of somebody else as an alias of an item, or
        let a relation to the item appear on somebody else's page, also if the page is made later.
        Relations to items of other Archives are allowed.

        :raises FieldError: if a new alias or relation is an identifier that belongs to others in
            this Archive.
        """
        unchanged = () if before is None else (*before.aliases, *list_related(before).values())
        for number, alias in enumerate(record.aliases):
            if alias not in unchanged:
                raise FieldError(f"aliases[{number}]", "only a key that may all can add an alias")
        with self.archive.own_context.reading() as store:
            for field, ibi in list_related(record).items():
                if ibi in unchanged or self._find_issued(store.connection, [ibi]):
                    continue
                if (
                    ibi in store.find_owners([ibi])
                    or ownership.find_held(store.connection, store.archive_id, [ibi])
                    or self._find_issued(store.connection, [ibi], of_all=True)
                ):
                    raise FieldError(field, f"{ibi} belongs to others; the scope all allows it")


def _storing(context: operations.OperationContext, model: Any, store: StoreMinted) -> _Operations:
    """Return operations that call a function in the transaction in which they store a new row.

    :param model: the table of the row, which has both forms of the identifier.
    :param store: the function, which gets the identifier of the new row.
    """

    def store_new(items: ItemStore) -> None:
        rep = str(items.ibi)
        is_new = model.rep == rep, model.archive_id == items.archive_id
        ibip = items.connection.scalars(sa.select(model.ibip).where(*is_new)).one()
        store(items.connection, [Minted(rep, ibip)])

    context = replace(context, before_commit=store_new)
    return _Operations(context, context)


def _find_record(store: ItemStore, ibi: str) -> records.Record | None:
    """Return the record of the item that has an identifier.

    :returns: None if there is no such item, or if it is the service of the Archive.
    """
    owner = store.find_owners([ibi]).get(ibi)
    return None if owner is None or owner.is_service else store.reader.read_record(owner.id)


def _check_reserved(before: Identification) -> None:
    if before.status != ownership.HELD:
        raise StorageError(
            f"{before.minted.rep} was {before.status}; only a reserved identifier can be given to "
            "an item, or be released"
        )


def _check_no_row(before: Identification) -> None:
    """Refuse an item that belongs to a row of the host, because only the row can change it."""
    if before.record is not None and before.record.key is not None:
        raise StorageError(
            f"the item follows {before.record.key} of the repository; change it there"
        )


def _check_stated(record: records.Record, before: records.Record | None) -> None:
    """Check that a program has set no field that only the Archive may set."""
    for name in _SET_HERE:
        stated = getattr(record, name)
        if stated is None or (before is not None and stated == getattr(before, name)):
            continue
        if name == "timestamp" and before is not None:
            if get_stated(record) == get_stated(before):
                continue  # the program repeats its request
            raise StorageError("the item has changed since it was read; read it again")
        raise FieldError(name, "the Archive sets this field; omit it")
    if record.state != State.ORIGINAL:
        raise FieldError("state", "the state of an item that is deposited or updated is Original")
    stored = {} if before is None else {(file.path, file.sha256): file.url for file in before.files}
    for number, file in enumerate(record.files):
        if file.source is not None:
            raise FieldError(f"files[{number}].source", "a program cannot name files of the server")
        if file.url is None and stored.get((file.path, file.sha256), "") is not None:
            reason = "the field is missing; write where the file is"
            raise FieldError(f"files[{number}].url", reason)


def get_stated(record: records.Record) -> dict[str, Any]:
    """Return, by name, those fields of a record that programs may set."""
    return {name: getattr(record, name) for name in STATED}


def list_related(record: records.Record) -> dict[str, str]:
    """Return the identifiers of the items to which a record refers, by the name of the field."""
    related = {f"translations.{name}": ibi for name, ibi in record.translations.items()}
    if record.next_edition is not None:
        related["next_edition"] = record.next_edition
    if isinstance(record.metadata, records.MetadataItem):
        related["metadata.ibi"] = record.metadata.ibi
    return related


# --- the methods ---------------------------------------------------------------------------------


#: A function that answers a request of a program.
Answer = Callable[..., Response]
#: The parsers of parameters or fields, by name.
Parsers = Mapping[str, Callable[[str, Any], Any]]


def answer_collection() -> Response:
    """Answer a request for ``/ibi/identifiers``."""
    return _answer({"GET": (_list, _LISTING), "POST": (_create, {})})


def answer_identifier(ibi: str) -> Response:
    """Answer a request for ``/ibi/identifiers/<ibi>``."""
    methods = {"GET": (_show, {}), "PUT": (_put, {}), "DELETE": (_withdraw, _WITHDRAWING)}
    return _answer(methods, ibi)


def describe() -> Response:
    """Return the description of the interface (OpenAPI 3.1). It needs no key."""
    text = Path(__file__).with_name("openapi.json").read_text()
    return problems.finish(Response(text, mimetype="application/json"))


def _answer(methods: Mapping[str, tuple[Answer, Parsers]], *parts: str) -> Response:
    """Answer a request with the function for its HTTP method, or with a problem (an error).

    :param methods: for each HTTP method, the function and the parsers of its query parameters.
    :param parts: the variable parts of the path.
    """

    def answer(function: Answer, parsers: Parsers) -> Response:
        archive = current_archive().without_session()
        server = IdentificationServer(archive, _authenticate(archive))
        # unknown parameters are refused, because they may be misspelt
        for name, stated in request.args.lists():
            if len(stated) > 1:
                raise FieldError(values.quoted_name(name), "the parameter must appear once")
        return function(server, *parts, **_parse_members(request.args.to_dict(), parsers))

    answers = {method: partial(answer, *of_method) for method, of_method in methods.items()}
    return problems.answer_program(answers, _UNKNOWN)


def _authenticate(archive: Archive) -> sa.Row[Any]:
    """Return the row of the key that the request contains.

    :raises Problem: 401 if the key is missing or not valid.
    """
    bearer, realm = problems.read_bearer(), 'Bearer realm="identifiers"'
    if not bearer:
        text = "send the key in the header Authorization: Bearer KEY"
        raise problems.Problem(401, text, WWW_Authenticate=realm)
    key = find_key(archive.database, archive.served().id, bearer, archive.clock())
    if key is None:
        text = (
            "the key is unknown, revoked or expired; ask the administrator of the Archive for one"
        )
        raise problems.Problem(401, text, WWW_Authenticate=f'{realm}, error="invalid_token"')
    return key


def _require(server: IdentificationServer, scope: str) -> None:
    if not server.may(scope):
        text = f"the key may not {scope}; ask the administrator for another key"
        raise problems.Problem(403, text)


def _create(server: IdentificationServer) -> Response:
    """Issue identifiers, reserve one, or deposit an item."""
    data = problems.read_json_body(MAX_BODY, empty={})
    stated = _parse_members(data, _CREATING)
    kind = next((name for name in ("record", "reserve") if name in stated), "count")
    for name in stated:
        if name != kind and (name, kind) != ("note", "reserve"):
            raise FieldError(name, f"the field cannot be used together with {kind}")
    text = request.headers.get(_REPEAT_KEY)
    repeat_key = None if text is None else _match_repeat_key(text.strip())
    if text is not None and repeat_key is None:
        raise FieldError(_REPEAT_KEY, "the key must have 1 to 255 visible ASCII characters")
    _require(server, "deposit" if kind == "record" else "mint")
    issued = server.issue(stated, repeat_key and repeat_key[2])
    response = _show_json({"identifiers": list(map(_name, issued))}, 201)
    response.headers["Location"] = f"{_base_url()}/{issued[0].rep}"
    return response


def _list(server: IdentificationServer, after: int = 0, limit: int = 100) -> Response:
    """Return a part of the list of the identifiers that the program may see."""
    rows = server.list_issued(after, limit)
    listed: dict[str, Any] = {
        "identifiers": [
            {**_name(row), "issued_at": format_timestamp(row.issued_at)} for row in rows
        ]
    }
    if len(rows) == limit:
        listed["next"] = f"{_base_url()}?after={rows[-1].id}&limit={limit}"
    return _show_json(listed)


def _show(server: IdentificationServer, ibi: str, status: int = 200) -> Response:
    minted, state, record = server.describe(ibi)
    described: dict[str, Any] = {**_name(minted), "status": state}
    if record is not None:
        described["record"] = records.format_record(record)
    return _show_json(described, status)


def _put(server: IdentificationServer, ibi: str) -> Response:
    _require(server, "deposit")
    data = problems.read_json_body(MAX_BODY, empty={})
    stated = _parse_members(data, {"record": _CREATING["record"]})
    if not stated:
        raise FieldError("record", "the field is missing")
    before = server.put(ibi, stated["record"])
    return _show(server, before.minted.rep, 201 if before.record is None else 200)


def _withdraw(
    server: IdentificationServer, ibi: str, reason: str | None = None, successor: str | None = None
) -> Response:
    _require(server, "mint" if server.describe(ibi).record is None else "deposit")
    server.withdraw(ibi, reason, successor)
    return _show(server, ibi)


# --- reading requests and writing answers --------------------------------------------------------


def _parse_members(value: Any, parsers: Parsers) -> dict[str, Any]:
    """Check the members of a JSON object, and return their parsed values by name."""
    members = values.check_object("", value, parsers)
    return {name: parse(name, members[name]) for name, parse in parsers.items() if name in members}


def _parse_number(least: int, most: int) -> Callable[[str, Any], int]:
    """Return a parser for a JSON number that must be whole and in a range."""

    def parse(name: str, value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise values.wrong(name, value, f"is not a whole number from {least} to {most}")
        return value

    return parse


def _parse_digits(least: int, most: int) -> Callable[[str, Any], int]:
    """Return a parser for a query parameter that must be a whole number in a range."""
    parse = _parse_number(least, most)
    is_number = re.compile("[0-9]{1,18}").fullmatch
    return lambda name, text: parse(name, int(text) if is_number(text) else text)


def _parse_reserve(name: str, value: Any) -> bool:
    if value is not True:
        raise values.wrong(name, value, "is not true; omit the field to reserve nothing")
    return True


_LISTING: Parsers = {"after": _parse_digits(0, 1 << 59), "limit": _parse_digits(1, MAX_COUNT)}
_WITHDRAWING: Parsers = {"reason": values.parse_text, "successor": values.parse_ibi}
#: The parsers of the fields of a request for new identifiers.
_CREATING: Parsers = {
    "count": _parse_number(1, MAX_COUNT),
    "reserve": _parse_reserve,
    "note": values.parse_text,
    "record": lambda name, value: value,
}


def _show_json(value: dict[str, Any], status: int = 200) -> Response:
    response = jsonify(value)
    response.status_code = status
    return response


def _name(minted: Minted | sa.Row[Any]) -> dict[str, str]:
    """Return the members of a JSON object that names an identifier: both forms and the URL."""
    forms = Minted(minted.rep, minted.ibip)
    url = current_archive().persistent_url(forms)
    return {"rep": forms.rep, "ibip": forms.ibip, "persistent_url": url}


def _base_url() -> str:
    return f"{current_archive().addresses.base}{PATH}"
