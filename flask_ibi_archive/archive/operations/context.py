"""What an operation works with: a transaction, the identifiers it gives, the contents it takes in."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError

from flask_ibi_archive.archive.archives import ServedArchive, find_archives
from flask_ibi_archive.archive.minting import Minted, Minter
from flask_ibi_archive.archive.operations.sessions import HostSession, in_transaction
from flask_ibi_archive.errors import IdentifierError, RuleBroken, StorageError, UnknownItem
from flask_ibi_archive.identifiers import parse_identifier
from flask_ibi_archive.records.fields import FieldError, parse_path, quoted
from flask_ibi_archive.records.format import format_record
from flask_ibi_archive.records.parse import parse_record
from flask_ibi_archive.records.record import ItemRecord
from flask_ibi_archive.storage.contents import ContentFolder, Staging
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.items import Content, ItemStore
from flask_ibi_archive.storage.rules import RULES, explain
from flask_ibi_archive.storage.states import ELSEWHERE, State

#: A file that a host hands over, and the files of an item: a single one needs no list.
FileSource: TypeAlias = "str | os.PathLike[str] | BinaryIO"
Files: TypeAlias = "FileSource | Sequence[FileSource]"
#: What these are, for messages.
FILE_FORMS = "a path (text or Path) or a file open in binary mode"


@dataclass(frozen=True)
class OperationContext:
    """Where the operations of an Archive take place.

    :param minter: gives what gives identifiers, when one is needed.
    :param session: the host's, where it brought one: operations are a part of its transaction then.
    """

    database: Database
    archive: ServedArchive
    folder: ContentFolder
    minter: Callable[[], Minter]
    session: HostSession | None = None

    @contextmanager
    def transaction(self, ibi: str | None = None) -> Iterator[ItemStore]:
        """Return the items of the Archive within one transaction; an exception undoes all of it.

        With a session of the host's it is a savepoint, and the host commits.

        :param ibi: the item that it is about, for messages.
        :raises RuleBroken: if the database refuses something by a rule; StorageError: by anything
            else.
        """
        if self.session is not None:
            self.session.connection()  # what the host itself did wrong is not for us to explain
        writing = self.session.savepoint() if self.session else self.database.writing()
        try:
            with writing as connection:
                yield ItemStore(connection, self.archive.id)
        except IntegrityError as error:
            broken = explain(error, ibi)
            raise broken or StorageError(f"the database refuses it: {error.orig}") from error
        except DBAPIError as error:
            raise self.database.explain(error) from error

    @contextmanager
    def reading(self) -> Iterator[ItemStore]:
        """Return the items of the Archive as they are now, for the host as its transaction has
        them.
        """
        if self.session is not None:
            yield ItemStore(self.session.connection(), self.archive.id)
        else:
            with self.database.reading() as connection:
                yield ItemStore(connection, self.archive.id)

    def mint(self) -> Minted:
        """Return an identifier, even while the host's transaction keeps other writers out.

        :raises MintingError: if there is none now.
        """
        minter = self.minter()
        if self.session is not None and self.database.engine.dialect.name == "sqlite":
            connection = self.session.connection()
            if in_transaction(connection):
                try:
                    return minter.mint_within(connection)
                except DBAPIError as error:
                    raise self.database.explain(error) from error
        return minter.mint()[0]

    def find_archive(self, connection: Connection, ibi: str) -> ServedArchive:
        """Return the Archive of the database whose service bears an IBI.

        :raises StorageError: if there is none, naming those that there are.
        """
        found = find_archives(connection, canonical(ibi))
        if not found:
            names = ", ".join(archive.service_ibi for archive in find_archives(connection)[:10])
            raise StorageError(f"no Archive of this database has the service {ibi}; it has {names}")
        return found[0]


def now() -> datetime:
    """Return the moment, as timestamps are kept: in UTC, without a fraction of a second."""
    return datetime.now(timezone.utc).replace(microsecond=0)


def canonical(ibi: str) -> str:
    """Return an identifier in canonical case.

    :raises UnknownItem: if it is none, since nothing can bear it then.
    """
    try:
        return parse_identifier(ibi).text
    except IdentifierError as error:
        raise UnknownItem(quoted(ibi)) from error


def find_item(store: ItemStore, ibi: str) -> tuple[int, State]:
    """Return row and state of the item that bears an identifier, which is not the service.

    :raises UnknownItem: if there is none.
    :raises RuleBroken: rule 6, if it is the service.
    """
    item_id, state = store.owners([canonical(ibi)]).get(canonical(ibi), (0, ELSEWHERE))
    if state == ELSEWHERE:
        raise UnknownItem(ibi)
    if store.is_service(item_id):
        raise RuleBroken(6, canonical(ibi), RULES[6])
    return item_id, State(state)


def checked(record: ItemRecord, name: str | None) -> ItemRecord:
    """Return a record with every field checked and in its canonical form.

    :param name: the item's identifier, for the message, where it has one yet.
    :raises RuleBroken: rule 8, if it names another item in its own language.
    :raises StorageError: naming the field that is wrong.
    """
    try:
        data = format_record(record)
        _check_twin(data, name)
        return parse_record(data)
    except FieldError as error:
        raise StorageError(f"{name or 'the new item'}: {error}") from error


def _check_twin(data: dict[str, Any], name: str | None) -> None:
    """Check rule 8 first, for identifiers as they will be written; what is no identifier is refused
    later.
    """
    translations, language = data.get("translations"), data.get("language")
    if not isinstance(translations, dict) or not isinstance(language, str):
        return
    twin = translations.get(language)
    with suppress(IdentifierError):
        if isinstance(twin, str):
            text, own = parse_identifier(twin).text, (data.get("rep"), data.get("ibip"))
            if text not in own:
                raise RuleBroken(8, name, f"{text} can't be its translation into its own language")


def take_files(staging: Staging, files: Files) -> dict[str, Content]:
    """Take files in, each under its own name.

    :raises StorageError: if two have one name, or one can't be read.
    """
    named = [_named(number, file) for number, file in enumerate(listed(files))]
    paths = [path for path, _ in named]
    for path in paths:
        if paths.count(path) > 1:
            raise StorageError(f"two files are called {path}; an item has each name once")
    contents = {}
    for path, file in named:
        try:
            contents[path] = (
                staging.take(file) if isinstance(file, Path) else staging.take_stream(file)
            )
        except OSError as error:
            where = file if isinstance(file, Path) else path
            raise StorageError(f"{where} can't be taken in: {error.strerror or error}") from error
    return contents


def keep(staging: Staging, contents: Mapping[str, Content]) -> None:
    """Put contents in their places, when the rows that need them are written."""
    for content in contents.values():
        staging.keep(content)


def listed(files: Any) -> list[Any]:
    """Return files as a list, a single one too.

    :raises StorageError: if they are something else.
    """
    if isinstance(files, (str, os.PathLike)) or hasattr(files, "read"):
        return [files]
    if isinstance(files, (Sequence, Iterator)) and not isinstance(files, (bytes, bytearray)):
        return list(files)
    raise StorageError(f"files: {quoted(files)} is not a list, each {FILE_FORMS}")


def _named(number: int, file: Any) -> tuple[str, Path | BinaryIO]:
    """Return the name that a file has in its item, and where its content is read from."""
    field = f"files[{number}]"
    path = os.fspath(file) if isinstance(file, (str, os.PathLike)) else None
    if isinstance(path, str):
        if "\0" in path:
            raise StorageError(f"{field}: {quoted(path)} holds a NUL character, which no path has")
        return _name(path, Path(path).name), Path(path)
    if not hasattr(file, "read"):
        raise StorageError(f"{field}: {quoted(file)} is not {FILE_FORMS}")
    try:
        gives_bytes = isinstance(file.read(0), bytes)
    except (OSError, TypeError, ValueError) as error:  # closed, or open for writing only
        raise StorageError(f"{field}: {quoted(file)} can't be read: {error}") from error
    if not gives_bytes:
        raise StorageError(f"{field}: {quoted(file)} gives text; open it in binary mode ('rb')")
    name = getattr(file, "name", None)
    if not isinstance(name, str):
        raise StorageError(f"{field}: {quoted(file)} has no name; give the path of a file instead")
    return _name(name, Path(name).name), file


def _name(shown_path: str, name: str) -> str:
    try:
        return parse_path("file", name)
    except FieldError as error:
        raise StorageError(f"{shown_path!r}: {error.reason}") from error
