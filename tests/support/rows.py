"""Writes rows with plain SQL, to test the constraints of the database itself."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, text

REP = "sid.inpe.br/mtc-m19/2013/09.04.12.27.57"
IBIP = "8JMKD3MGP7W/3EPGUE5"
OTHER_REP = "sid.inpe.br/mtc-m18@80/2009/07.21.13.23"
OTHER_IBIP = "8JMKD3MGP8W/35MME4E"
LEGACY = "kLwpN6zZ/kfnE"
SERVICE = "sid.inpe.br/mtc-m18@80/2008/03.17.15.17"
SERVICE_IBIP = "J8LNKB5R7W/3FUQHC5"
SECOND_SERVICE = "dpi.inpe.br/banon/1999/01.09.22.14"
THIRD_SERVICE = "iconet.com.br/banon/2009/09.09.22.01"


class Rows:
    """Writes rows in the transaction of a connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def run(self, sql: str, **values: Any) -> Any:
        """Run a statement and return the first column of its first row, None without rows."""
        result = self.connection.execute(text(sql), values)
        return result.scalar() if result.returns_rows else None

    def insert(self, table: str, **values: Any) -> Any:
        """Insert a row and return its id, None if the table has no id."""
        names = ", ".join(values)
        marks = ", ".join(f":{name}" for name in values)
        returning = " RETURNING id" if table not in ("ibi_identifier", "ibi_file") else ""
        return self.run(f"INSERT INTO {table} ({names}) VALUES ({marks}){returning}", **values)

    def archive(self, rep: str = SERVICE, ibip: str | None = None) -> int:
        """Insert an Archive with its service item and return its id."""
        archive = self.insert(
            "ibi_archive",
            service_item_id=0,
            address="mtc-m16c.sid.inpe.br",
            platform_version="1",
            database="1",
        )
        service = self.item(archive, rep, ibip, is_service=True, transferable=False)
        self.run("UPDATE ibi_archive SET service_item_id = :s WHERE id = :a", s=service, a=archive)
        return int(archive)

    def service_of(self, archive: int) -> int:
        """Return the service item of an Archive."""
        return int(self.run("SELECT service_item_id FROM ibi_archive WHERE id = :a", a=archive))

    def item(
        self,
        archive: int,
        rep: str | None = REP,
        ibip: str | None = None,
        state: str = "Original",
        aliases: tuple[str, ...] = (),
        **columns: Any,
    ) -> int:
        """Insert an item with its identifiers and return its id."""
        moment = "2013-09-04 12:27:57+00:00"
        if self.connection.dialect.name == "sqlite":
            moment = "2013-09-04 12:27:57.000000"
        item = self.insert(
            "ibi_item",
            archive_id=archive,
            rep=rep,
            ibip=ibip,
            state=state,
            timestamp=moment,
            **columns,
        )
        for form, name in (("rep", rep), ("ibip", ibip)):
            if name is not None:
                self.identifier(item, name, form)
        for number, alias in enumerate(aliases, 1):
            self.identifier(item, alias, form_of(alias), number)
        return int(item)

    def archive_of(self, item: int) -> int:
        """Return the Archive of an item."""
        return int(self.run("SELECT archive_id FROM ibi_item WHERE id = :i", i=item))

    def member(self, archive: int, ibi: str, language: str | None, head: str | None = None) -> None:
        """Insert a member of a group of translations.

        :param head: the head of the group; None: the member itself.
        """
        self.run(
            "INSERT INTO ibi_translation (archive_id, ibi, head, language)"
            " VALUES (:archive, :ibi, :head, :language)",
            archive=archive,
            ibi=ibi,
            head=head or ibi,
            language=language,
        )

    def copy(self, archive: int, of: str = SERVICE, **columns: Any) -> int:
        """Insert a Copy that names an Archive."""
        return self.item(archive, state="Copy", original_archive=of, **columns)

    def identifier(self, item: int, name: Any, form: str = "rep", alias_no: int = 0) -> None:
        """Insert an identifier of an item."""
        self.run(
            "INSERT INTO ibi_identifier (text, archive_id, item_id, state, form, alias_no)"
            " SELECT :name, archive_id, id, state, :form, :alias_no FROM ibi_item WHERE id = :item",
            item=item,
            name=name,
            form=form,
            alias_no=alias_no,
        )

    def set(self, item: int, **values: Any) -> None:
        """Update columns of an item."""
        columns = ", ".join(f"{name} = :{name}" for name in values)
        self.run(f"UPDATE ibi_item SET {columns} WHERE id = :item_", item_=item, **values)

    def delete(self, item: int) -> None:
        """Delete an item physically."""
        self.run("DELETE FROM ibi_item WHERE id = :item", item=item)

    def hold(self) -> None:
        """Check the deferred constraints now."""
        if self.connection.dialect.name == "sqlite":
            assert self.connection.execute(text("PRAGMA foreign_key_check")).all() == []
        else:
            self.run("SET CONSTRAINTS ALL IMMEDIATE")
            self.run("SET CONSTRAINTS ALL DEFERRED")


def form_of(name: str) -> str:
    """Return the form of one of the identifiers above."""
    if "Z" in name:
        return "legacy"
    return "rep" if name.count("/") > 1 else "ibip"
