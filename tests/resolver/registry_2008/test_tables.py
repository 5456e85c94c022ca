"""The rules of the document registry as constraints of the database ([P] 4.4 to 4.6)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from sqlalchemy import bindparam, text
from sqlalchemy.exc import IntegrityError
from support.document_registries import (
    a_document_registry,
    a_location,
    an_actor,
    an_ibi,
    describe,
    hand_over,
    register,
)
from support.registries import NOON, resolver_database

from flask_ibi_archive.server.database.dialects import UTCDateTime

NOW = bindparam("now", NOON, UTCDateTime)
DOCUMENT, OTHER = an_ibi("document"), an_ibi("other")

ACTOR = (
    "INSERT INTO ibi_registry_actor (actor_id, computer_name, domain_name, ip, port, email,"
    " password_hash, cancelled_at, registered_at)"
    " VALUES ('{}', 'a', 'a.br', '8.8.8.8', {}, 'a@a.br', {}, {}, :now)"
)
IDENTIFIER = "INSERT INTO ibi_registry_identifier (identifier, {1}) VALUES ('{0}', {2})"
REGISTRATION = "INSERT INTO ibi_registry_registration (document_id, actor_id, {}) VALUES ({}, {})"

#: Direct changes that break a rule, and the constraint that refuses each change, or the column that
#: cannot be NULL. The actors 1 (holder) and 2 (copy) have
#: registered the document 1, and the actor 1 alone has registered the document 2. The actor 3 has
#: no registration, and the actor 4 is cancelled. The registrations 1 and 3 have metadata, and the
#: registration 3 has no URL of the document.
REFUSED: Sequence[tuple[str, ...]] = (
    # P4-11, P4-14: an actor has one registration of a document
    (
        "uq_ibi_registry_registration_actor",
        REGISTRATION.format("url, updated_at", 1, "1, 'http://a.br', :now"),
    ),
    (
        "uq_ibi_registry_registration_actor",
        "UPDATE ibi_registry_registration SET actor_id = 1 WHERE id = 2",
    ),
    # P4-12: exactly one actor has no copy
    (
        "uq_ibi_registry_document_document_id",
        f"UPDATE ibi_registry_document SET document_id = '{DOCUMENT}'",
    ),
    ("fk_ibi_registry_document_holder", "UPDATE ibi_registry_document SET holder_id = 3"),
    ("holder_id", "UPDATE ibi_registry_document SET holder_id = NULL"),
    (
        "fk_ibi_registry_document_holder",
        "INSERT INTO ibi_registry_document (document_id, holder_id, is_original)"
        f" VALUES ('{an_ibi('new')}', 1, false)",
    ),
    ("is_original", "UPDATE ibi_registry_document SET is_original = NULL"),
    # P4-16: copies are deleted before the document
    ("fk_ibi_registry_document_holder", "DELETE FROM ibi_registry_registration WHERE id = 1"),
    ("fk_ibi_registry_registration_document", "DELETE FROM ibi_registry_document WHERE id = 1"),
    (
        "fk_ibi_registry_registration_document",
        "DELETE FROM ibi_registry_registration WHERE id = 1",
        "DELETE FROM ibi_registry_document WHERE id = 1",
    ),
    ("fk_ibi_registry_registration_document", "DELETE FROM ibi_registry_document WHERE id = 2"),
    # P4-07, P4-08: a URL of the document with a date, or a URL of metadata with a date
    ("ck_ibi_registry_urls", REGISTRATION.format("url", 1, "3, NULL")),
    ("ck_ibi_registry_registration_updated", REGISTRATION.format("url", 1, "3, 'http://a.br'")),
    (
        "ck_ibi_registry_registration_updated",
        REGISTRATION.format("updated_at, first_metadata", 1, "3, :now, 1"),
    ),
    (
        "ck_ibi_registry_urls",
        "UPDATE ibi_registry_registration SET url = NULL, updated_at = NULL WHERE id = 2",
    ),
    ("fk_ibi_registry_registration_metadata", REGISTRATION.format("first_metadata", 1, "3, 1")),
    (
        "fk_ibi_registry_registration_metadata",
        "DELETE FROM ibi_registry_metadata WHERE registration_id = 3",
    ),
    (
        "ck_ibi_registry_registration_metadata",
        "UPDATE ibi_registry_registration SET first_metadata = 2 WHERE id = 1",
    ),
    ("updated_at", "UPDATE ibi_registry_metadata SET updated_at = NULL"),
    ("url", "UPDATE ibi_registry_metadata SET url = NULL"),
    (
        "ck_ibi_registry_metadata_number",
        "INSERT INTO ibi_registry_metadata (registration_id, number, url, updated_at)"
        " VALUES (1, 0, 'http://a.br', :now)",
    ),
    (
        "ck_ibi_registry_registration_next",
        "UPDATE ibi_registry_registration SET next_edition_ibi = 'a' WHERE id = 1",
    ),
    (
        "ck_ibi_registry_registration_previous",
        "UPDATE ibi_registry_registration SET previous_edition_ibi = 'a' WHERE id = 1",
    ),
    # only registered documents and actors
    (
        "fk_ibi_registry_registration_document",
        REGISTRATION.format("url, updated_at", 9, "3, 'http://a.br', :now"),
    ),
    (
        "fk_ibi_registry_registration_actor",
        REGISTRATION.format("url, updated_at", 1, "9, 'http://a.br', :now"),
    ),
    (
        "fk_ibi_registry_registration_actor",
        "DELETE FROM ibi_registry_identifier WHERE actor_id = 2",
        "DELETE FROM ibi_registry_actor WHERE id = 2",
    ),
    # P4-05: a cancelled actor has no registration and no password
    (
        "fk_ibi_registry_registration_actor",
        REGISTRATION.format("url, updated_at", 1, "4, 'http://a.br', :now"),
    ),
    (
        "fk_ibi_registry_registration_actor",
        "UPDATE ibi_registry_actor SET cancelled_at = :now, password_hash = NULL WHERE id = 2",
    ),
    ("ck_ibi_registry_actor_cancelled", ACTOR.format(an_ibi("new"), 80, "'hash'", ":now")),
    ("ck_ibi_registry_actor_cancelled", ACTOR.format(an_ibi("new"), 80, "NULL", "NULL")),
    # P4-04: an IBI belongs to one actor, also if the actor is cancelled
    ("uq_ibi_registry_actor_actor_id", ACTOR.format(an_ibi("a"), 80, "'hash'", "NULL")),
    ("uq_ibi_registry_actor_actor_id", ACTOR.format(an_ibi("d"), 80, "'hash'", "NULL")),
    # an IBI belongs to an actor or to a document, which has no other IBI
    ("ibi_registry_identifier_pkey", IDENTIFIER.format(DOCUMENT, "actor_id", 3)),
    ("ibi_registry_identifier_pkey", IDENTIFIER.format(an_ibi("a"), "document_id", 1)),
    ("uq_ibi_registry_identifier_actor", IDENTIFIER.format(an_ibi("new"), "actor_id", 1)),
    ("uq_ibi_registry_identifier_document", IDENTIFIER.format(an_ibi("new"), "document_id", 1)),
    ("fk_ibi_registry_identifier_actor", IDENTIFIER.format(an_ibi("new"), "actor_id", 9)),
    ("fk_ibi_registry_identifier_actor", "DELETE FROM ibi_registry_actor WHERE id = 3"),
    ("fk_ibi_registry_identifier_document", IDENTIFIER.format(an_ibi("new"), "document_id", 9)),
    (
        "ck_ibi_registry_identifier_owner",
        "UPDATE ibi_registry_identifier SET actor_id = NULL WHERE actor_id = 1",
    ),
    (
        "ck_ibi_registry_identifier_owner",
        "UPDATE ibi_registry_identifier SET document_id = 1 WHERE actor_id = 1",
    ),
    ("ck_ibi_registry_actor_port", ACTOR.format(an_ibi("new"), 0, "'hash'", "NULL")),
    ("ck_ibi_registry_actor_port", ACTOR.format(an_ibi("new"), 65536, "'hash'", "NULL")),
)


@pytest.mark.rule("P4-05", "P4-07", "P4-08", "P4-11", "P4-12", "P4-16")
@pytest.mark.postgresql
def test_the_database_refuses_what_breaks_a_rule(uri: str) -> None:
    with resolver_database(uri) as database:
        registry = a_document_registry(database)
        holder, copy, _, cancelled = (an_actor(registry, name) for name in "abcd")
        register(registry, holder, DOCUMENT, a_location("x", "oai_dc", "mtd2-br"))
        register(registry, copy, DOCUMENT)
        register(registry, holder, OTHER, a_location("y", "x", url=None, updated_at=None))
        with database.writing() as connection:
            connection.execute(
                text(
                    "UPDATE ibi_registry_actor SET cancelled_at = :now, password_hash = NULL"
                    " WHERE actor_id = :ibi"
                ).bindparams(NOW, ibi=cancelled.actor_id)
            )
        before = [registry.find_record(one) for one in (DOCUMENT, OTHER)]
        wrong = []
        for rule, *statements in REFUSED:
            try:
                with database.writing() as connection:
                    for statement in statements:
                        values = [NOW] if ":now" in statement else []
                        connection.execute(text(statement).bindparams(*values))
            except IntegrityError as error:
                broken = getattr(error.orig, "diag", None)  # SQLite does not always name it
                if broken and rule not in (broken.constraint_name, broken.column_name):
                    wrong.append((rule, statements, str(error)))
            else:
                wrong.append((rule, statements, "accepted"))
        assert wrong == []
        assert [registry.find_record(one) for one in (DOCUMENT, OTHER)] == before
        # the same database allows what does not break a rule
        hand_over(registry, holder, DOCUMENT, copy.actor_id)
        assert describe(registry, DOCUMENT) == ["b document", "a copy"]
