"""The tables of the repository: users, and publications with persistent identifiers."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

from flask import current_app
from flask_login import UserMixin
from sqlalchemy import JSON, ForeignKey, Select, String, or_, select
from sqlalchemy.orm import Mapped, mapped_column, relationship
from werkzeug.security import check_password_hash, generate_password_hash

from example_app.extensions import Model, db
from example_app.lines import (
    read_grants,
    read_organisation,
    read_people,
    read_related,
    read_texts,
)
from flask_ibi_archive import IdentifiedItem, ItemRecord, Tombstone


class User(UserMixin, Model):
    """A person who may log in: a member, who deposits, or a librarian, who may do everything."""

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(80), unique=True)
    password_hash: Mapped[str] = mapped_column(String(255))
    is_librarian: Mapped[bool]

    def set_password(self, password: str) -> None:
        """Store the hash of a password."""
        self.password_hash = generate_password_hash(password)

    def has_password(self, password: str) -> bool:
        """Return whether a password is the one of the user."""
        return check_password_hash(self.password_hash, password)


class Publication(IdentifiedItem, Model):
    """A thesis, an article, a report or a data set.

    The mixin adds the columns of the identifiers, ``ibi`` and ``persistent_url``. From
    :meth:`ibi_record`, it keeps the item up to date when the session is committed.
    """

    id: Mapped[int] = mapped_column(primary_key=True)
    #: "draft", "public" or "withdrawn"
    status: Mapped[str] = mapped_column(String(20), index=True)
    #: one of the kinds of :data:`example_app.forms.KINDS`, which are types of works
    kind: Mapped[str] = mapped_column(String(20))
    title: Mapped[str] = mapped_column(String(500))
    #: the title in other languages, one per line, such as ``Nuvens de gelo [pt]``
    other_titles: Mapped[str | None] = mapped_column(String(1000))
    #: one author per line: the name, the ORCID, the affiliation, as read_people() reads them
    authors: Mapped[str] = mapped_column(String(2000))
    #: persons in the same form
    advisor: Mapped[str | None] = mapped_column(String(1000))
    committee: Mapped[str | None] = mapped_column(String(2000))
    degree: Mapped[str | None] = mapped_column(String(200))
    #: such as "doctoral"
    level: Mapped[str | None] = mapped_column(String(20))
    programme: Mapped[str | None] = mapped_column(String(200))
    institution: Mapped[str | None] = mapped_column(String(300))
    defended: Mapped[date | None]
    journal: Mapped[str | None] = mapped_column(String(300))
    volume: Mapped[str | None] = mapped_column(String(50))
    issue: Mapped[str | None] = mapped_column(String(50))
    pages: Mapped[str | None] = mapped_column(String(50))
    issn: Mapped[str | None] = mapped_column(String(20))
    #: the number of a report
    number: Mapped[str | None] = mapped_column(String(50))
    publisher: Mapped[str | None] = mapped_column(String(300))
    abstract: Mapped[str | None]
    #: the abstract in other languages, one per line
    other_abstracts: Mapped[str | None]
    subjects: Mapped[str | None] = mapped_column(String(1000))
    licence: Mapped[str | None] = mapped_column(String(200))
    #: grants and related works, one per line
    funding: Mapped[str | None] = mapped_column(String(2000))
    related: Mapped[str | None] = mapped_column(String(2000))
    year: Mapped[int]
    language: Mapped[str] = mapped_column(String(10))
    #: for each file, the name that readers see, and the name in the upload folder
    files: Mapped[dict[str, str]] = mapped_column(JSON)
    #: the first day on which readers may read the files
    embargo: Mapped[date | None]
    #: the DOI, the Handle and the former addresses of the publication, one per line
    old_links: Mapped[str | None] = mapped_column(String(2000))
    #: why a withdrawn publication was withdrawn
    reason: Mapped[str | None] = mapped_column(String(500))
    owner_id: Mapped[int] = mapped_column(ForeignKey("user.id"))
    previous_edition_id: Mapped[int | None] = mapped_column(ForeignKey("publication.id"))
    translation_of_id: Mapped[int | None] = mapped_column(ForeignKey("publication.id"))

    owner: Mapped[User] = relationship()
    previous_edition: Mapped[Publication | None] = relationship(
        foreign_keys=[previous_edition_id], remote_side=[id], back_populates="next_editions"
    )
    next_editions: Mapped[list[Publication]] = relationship(
        foreign_keys=[previous_edition_id], back_populates="previous_edition"
    )
    translation_of: Mapped[Publication | None] = relationship(
        foreign_keys=[translation_of_id], remote_side=[id], back_populates="translations"
    )
    translations: Mapped[list[Publication]] = relationship(
        foreign_keys=[translation_of_id], back_populates="translation_of"
    )

    def ibi_record(self) -> ItemRecord:
        """Describe the item of this publication for the Archive."""
        folder = Path(current_app.config["UPLOAD_FOLDER"])
        titles = [{"value": self.title, "lang": self.language}]
        abstracts = [{"value": self.abstract, "lang": self.language}] if self.abstract else []
        record = ItemRecord(
            state="Original",
            titles=[*titles, *read_texts(self.other_titles)],
            creators=read_people(self.authors),
            contributors=[
                *name_contributors("advisor", self.advisor),
                *name_contributors("committee member", self.committee),
            ],
            type=self.kind,
            issued=str(self.year),
            publisher=self.publisher,
            degree={
                "name": self.degree,
                "level": self.level,
                "programme": self.programme,
                "institution": read_organisation(self.institution or "") or None,
                "defended": self.defended,
            },
            container={
                "title": self.journal,
                "volume": self.volume,
                "number": self.issue,
                "pages": self.pages,
            },
            issn=self.issn,
            number=self.number,
            abstracts=[*abstracts, *read_texts(self.other_abstracts)],
            subjects=read_texts(self.subjects),
            licence=self.licence,
            # may_read() refuses nobody after an embargo; the Archive knows about the embargo itself
            access_right="open",
            funding=read_grants(self.funding),
            related=read_related(self.related),
            language=self.language,
            files=[(name, folder / stored) for name, stored in self.files.items()],
            embargo=self.embargo,
            same_as=self.old_links.splitlines() if self.old_links else [],
            previous_edition=self.previous_edition,
            translation_of=self.translation_of,
        )
        if self.status == "draft":
            record["state"] = "Reserved"
        elif self.status == "withdrawn":
            record["state"] = "Deleted"
            record["tombstone"] = Tombstone(self.reason or "")
        return record

    @property
    def creators(self) -> list[str]:
        """The names of the authors."""
        return [line.partition(";")[0].strip() for line in self.authors.splitlines()]

    @property
    def people(self) -> list[dict[str, Any]]:
        """The authors with their identifiers and affiliations, as in the record of the item."""
        return read_people(self.authors)

    @property
    def abstracts(self) -> list[dict[str, str | None]]:
        """The abstracts with their languages."""
        texts = read_texts(self.other_abstracts)
        own = {"value": self.abstract, "lang": self.language}
        return [own, *texts] if self.abstract else texts

    @property
    def other_languages(self) -> list[Publication]:
        """The public publications of which this one is a translation, or that translate it."""
        original = self.translation_of or self
        return [
            other
            for other in (original, *original.translations)
            if other is not self and other.status == "public"
        ]

    @property
    def later_edition(self) -> Publication | None:
        """The next edition, if there is a public one."""
        return next((other for other in self.next_editions if other.status == "public"), None)

    def is_managed_by(self, user: User | None) -> bool:
        """Return whether a user is a librarian or the owner of the publication."""
        return user is not None and (user.is_librarian or user.id == self.owner_id)

    def is_visible_to(self, user: User | None) -> bool:
        """Return whether a user may see the publication."""
        return self.status == "public" or (self.status == "draft" and self.is_managed_by(user))

    def may_be_edited_by(self, user: User) -> bool:
        """Return whether a user may edit the publication: a librarian, or the owner of a draft."""
        if self.status == "withdrawn":
            return False
        return user.is_librarian or (self.status == "draft" and self.is_managed_by(user))


def name_contributors(role: str, lines: str | None) -> list[dict[str, Any]]:
    """Return the persons in some lines as contributors with a role."""
    return [{**person, "role": role} for person in read_people(lines)]


def search(text: str) -> Select[Any]:
    """Return a statement for the public publications with a text in the title or an author."""
    found = select(Publication).where(
        Publication.status == "public",
        or_(
            Publication.title.icontains(text, autoescape=True),
            Publication.authors.icontains(text, autoescape=True),
        ),
    )
    return found.order_by(Publication.year.desc(), Publication.title, Publication.id)


def find_publication(ibi: str) -> Publication | None:
    """Return the publication with an IBI of either form."""
    return db.session.scalar(
        select(Publication).where(or_(Publication.ibi_rep == ibi, Publication.ibi_ibip == ibi))
    )
