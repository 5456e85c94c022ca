"""All tables of an Archive, with the eight rules of the model.

Revision: ibi_0001, the first.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.schema import CreateTable

revision = "ibi_0001"
down_revision = None
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)
#: Keys of hosts are sorted by their bytes.
HOST_KEY = sa.String(1024).with_variant(sa.String(1024, collation="C"), "postgresql")
#: Rows that refer to each other: the foreign key is checked at the end of the transaction.
DEFERRED: dict[str, Any] = {"deferrable": True, "initially": "DEFERRED", "use_alter": True}

# --- rule 5: the grammars, [G] Tables 6.1 and 7.1 ------------------------------------------------

POSTGRESQL_REP = r"""
CASE WHEN text ~ ('^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*\.?'
        || '/[a-z0-9]([a-z0-9-]*[a-z0-9])?([.@][0-9]+)?/[0-9]{4}/(0[1-9]|1[0-2])\.(0[1-9]|[12][0-9]|3[01])'
        || '\.([01][0-9]|2[0-3])\.[0-5][0-9](\.[0-5][0-9](\.[0-9]+)?)?$')
     AND text ~ '^([^/]*\.)?[a-z][^./]*\.?/' AND text !~ '/0000/'
THEN substring(text from '/[0-9]{4}/[0-9]{2}\.([0-9]{2})')::int <= extract(day FROM
        make_date(substring(text from '/([0-9]{4})/[0-9]{2}\.')::int,
                  substring(text from '/[0-9]{4}/([0-9]{2})\.')::int, 1)
        + interval '1 month' - interval '1 day')
ELSE false END
"""
POSTGRESQL_IBIP = "text ~ '^[2-9A-HJ-NP-U]+[WX][2-9A-HJ-NP-U]*/[2-9A-HJ-NP-U]+(W[2-9A-HJ-NP-U]+)?$'"
POSTGRESQL_LEGACY = "text ~ '^[A-Za-z0-9]*Z[A-Za-z0-9]*/[A-Za-z0-9]+$'"


def sqlite_rep() -> str:
    """Say the grammar of a repository name with what SQLite has: GLOB, substr and strftime."""
    subdomain = "substr(text, 1, instr(text, '/') - 1)"
    rest = "substr(text, instr(text, '/') + 1)"
    word = f"substr({rest}, 1, instr({rest}, '/') - 1)"
    date = f"substr({rest}, instr({rest}, '/') + 1)"
    name = f"rtrim({subdomain}, '.')"
    before_last_word = f"rtrim({name}, 'abcdefghijklmnopqrstuvwxyz0123456789-')"
    before_port = f"rtrim({word}, '0123456789')"
    minute = "[0-9][0-9][0-9][0-9]/[0-9][0-9].[0-9][0-9].[0-9][0-9].[0-9][0-9]"
    moment = (
        f"substr({date}, 1, 4) || '-' || substr({date}, 6, 2) || '-' || substr({date}, 9, 2)"
        f" || ' ' || substr({date}, 12, 2) || ':' || substr({date}, 15, 2)"
    )
    return " AND ".join(
        [
            "text NOT GLOB '*[^a-z0-9.@/-]*'",
            f"{subdomain} GLOB '[a-z0-9]*'",
            f"{subdomain} NOT GLOB '*@*'",
            f"{subdomain} NOT GLOB '*-'",
            f"{subdomain} NOT GLOB '*..*'",
            f"{subdomain} NOT GLOB '*.-*'",
            f"{subdomain} NOT GLOB '*-.*'",
            f"substr({name}, length({before_last_word}) + 1, 1) GLOB '[a-z]'",
            f"{word} GLOB '[a-z0-9]*'",
            f"(({word} NOT GLOB '*[.@]*' AND {word} NOT GLOB '*-') OR"
            f" ({before_port} GLOB '*[a-z0-9][.@]' AND length({word}) > length({before_port})"
            f" AND substr({before_port}, 1, length({before_port}) - 1) NOT GLOB '*[.@]*'))",
            f"({date} GLOB '{minute}' OR {date} GLOB '{minute}.[0-5][0-9]' OR"
            f" ({date} GLOB '{minute}.[0-5][0-9].[0-9]*'"
            f" AND substr({date}, 21) NOT GLOB '*[^0-9]*'))",
            f"{date} NOT GLOB '0000*'",
            # by way of a sum, as strftime alone takes a 30 February for what it says
            f"strftime('%Y/%m.%d.%H.%M', {moment}, '+0 days') IS substr({date}, 1, 16)",
        ]
    )


def sqlite_ibip() -> str:
    """Say the grammar of an IBIp with GLOB, ltrim and substr."""
    prefix = "substr(text, 1, instr(text, '/') - 1)"
    suffix = "substr(text, instr(text, '/') + 1)"
    port = f"ltrim({prefix}, '23456789ABCDEFGHJKLMNPQRSTU')"
    return " AND ".join(
        [
            "text NOT GLOB '*[^2-9A-HJ-NP-UWX/]*'",
            f"{prefix} GLOB '[^WX]*'",
            f"{port} GLOB '[WX]*'",
            f"substr({port}, 2) NOT GLOB '*[WX]*'",
            f"{suffix} GLOB '[^W]*'",
            f"{suffix} NOT GLOB '*[X/]*'",
            f"{suffix} NOT GLOB '*W'",
            f"{suffix} NOT GLOB '*W*W*'",
        ]
    )


def sqlite_legacy() -> str:
    """Say what a legacy identifier is: two words, an upper-case Z in the first."""
    prefix = "substr(text, 1, instr(text, '/') - 1)"
    suffix = "substr(text, instr(text, '/') + 1)"
    return (
        f"text NOT GLOB '*[^A-Za-z0-9/]*' AND {prefix} GLOB '*Z*'"
        f" AND length({suffix}) > 0 AND {suffix} NOT GLOB '*/*'"
    )


def grammar(dialect: str) -> str:
    """Give the condition of ck_ibi_identifier_grammar for a database."""
    if dialect == "sqlite":
        rep, ibip, legacy = sqlite_rep(), sqlite_ibip(), sqlite_legacy()
    else:
        rep, ibip, legacy = POSTGRESQL_REP, POSTGRESQL_IBIP, POSTGRESQL_LEGACY
    # SQLite's VARCHAR holds bytes too, and its GLOB ends at a NUL
    ascii_text = "typeof(text) = 'text' AND length(CAST(text AS BLOB)) = length(text) AND "
    return (
        f"{ascii_text if dialect == 'sqlite' else ''}length(text) <= 255"
        f" AND ((form = 'rep' AND ({rep})) OR (form = 'ibip' AND ({ibip}))"
        f" OR (form = 'legacy' AND ({legacy})))"
    )


def forms(dialect: str) -> str:
    """Give the condition of ck_ibi_item_grammar: rep and ibip hold these forms, in canonical case.

    The whole grammar is checked where the same text stands as an identifier, which foreign keys ask
    for.
    """
    if dialect == "sqlite":
        rep = "rep GLOB '*/*/*/*' AND rep NOT GLOB '*[^a-z0-9.@/-]*'"
        ibip = (
            "ibip GLOB '?*/?*' AND ibip NOT GLOB '*/*/*' AND ibip NOT GLOB '*[^2-9A-HJ-NP-UWX/]*'"
        )
    else:
        rep = "rep ~ '^[a-z0-9.@/-]+$' AND rep LIKE '%/%/%/%'"
        ibip = "ibip ~ '^[2-9A-HJ-NP-UWX]+/[2-9A-HJ-NP-UWX]+$'"
    # the name of an Archive that may be here, for rule 4: one that is found
    canonical = """CASE WHEN original_archive LIKE '%/%/%' THEN lower(original_archive)
        WHEN replace(original_archive, 'Z', '') <> original_archive THEN original_archive
        ELSE upper(original_archive) END"""
    return (
        f"(rep IS NULL OR ({rep})) AND (ibip IS NULL OR ({ibip}))"
        f" AND (original_archive IS NULL OR original_archive = {canonical})"
    )


# --- rules 4 and 6: what no constraint can say ---------------------------------------------------

#: The item that is the Original of NEW, in the other Archive of this database that NEW names.
ORIGINAL_OF = """
    SELECT original.item_id FROM ibi_identifier service
    JOIN ibi_archive archive ON archive.service_item_id = service.item_id
    JOIN ibi_identifier original ON original.archive_id = archive.id
        AND original.text IN (NEW.rep, NEW.ibip) AND original.state = 'Original'
    WHERE service.text = NEW.original_archive AND archive.id <> NEW.archive_id
"""
ARCHIVE_IS_HERE = """
    SELECT 1 FROM ibi_identifier service
    JOIN ibi_archive archive ON archive.service_item_id = service.item_id
    WHERE service.text = NEW.original_archive
"""
#: The Copies that name the Archive of OLD and bear an identifier of it: an item, or an identifier itself.
COPIES = """
    SELECT 1 FROM ibi_identifier mine
    JOIN ibi_identifier theirs ON theirs.text = mine.text AND theirs.state = 'Copy'
    JOIN ibi_item copy ON copy.id = theirs.item_id
    JOIN ibi_archive archive ON archive.id = OLD.archive_id
    JOIN ibi_identifier service ON service.item_id = archive.service_item_id
        AND service.text = copy.original_archive
"""
COPIES_OF_OLD = f"{COPIES} WHERE mine.item_id = OLD.id"
COPIES_WITH_OLD = f"{COPIES} WHERE mine.item_id = OLD.item_id AND mine.text = OLD.text"
ORIGINAL_LEAVES = """
    OLD.state = 'Original' AND (NEW.state <> 'Original' OR NEW.archive_id <> OLD.archive_id)
"""
SERVICE_CHANGES = """
    (NOT NEW.is_service OR NEW.archive_id <> OLD.archive_id
     OR coalesce(NEW.rep, '') <> coalesce(OLD.rep, '')
     OR coalesce(NEW.ibip, '') <> coalesce(OLD.ibip, ''))
"""
#: An Archive begins without (0) and is given its service item when that is there.
SERVICE_OF_NEW = """
    SELECT 1 FROM ibi_item WHERE id = NEW.service_item_id AND archive_id = NEW.id AND is_service
"""


# --- rules 7 and 8: references are identifiers as text --------------------------------------------

#: The earlier editions of NEW, and NEW itself, contain its next edition.
CIRCLE = """
    WITH RECURSIVE earlier (ibi) AS (
        SELECT coalesce(NEW.rep, NEW.ibip)
        UNION SELECT coalesce(item.rep, item.ibip) FROM earlier
        JOIN ibi_item item ON item.archive_id = NEW.archive_id AND item.next_edition = earlier.ibi
    )
    SELECT 1 FROM earlier WHERE ibi = NEW.next_edition
"""


def not_primary(*columns: str) -> str:
    """Return the statement that finds an item here by another form than its primary form."""
    return f"""
    SELECT 1 FROM ibi_identifier name JOIN ibi_item item ON item.id = name.item_id
    WHERE name.archive_id = NEW.archive_id AND name.text IN ({", ".join(columns)})
    AND name.text <> coalesce(item.rep, item.ibip)
"""


#: NEW, an identifier of an item, is not its primary form, but others refer to it. (With EXISTS and
#: OR, PostgreSQL would read all items.)
REFERENCES = """
    SELECT 1 FROM (
        SELECT next_edition AS ibi FROM ibi_item
        WHERE archive_id = NEW.archive_id AND next_edition = NEW.text
        UNION ALL SELECT metadata_ibi FROM ibi_item
        WHERE archive_id = NEW.archive_id AND metadata_ibi = NEW.text
        UNION ALL SELECT ibi FROM ibi_translation
        WHERE archive_id = NEW.archive_id AND ibi = NEW.text
    ) reference
    JOIN ibi_item item ON item.id = NEW.item_id
    WHERE reference.ibi <> coalesce(item.rep, item.ibip)
"""
#: The member NEW of a group is an item here with another language.
OTHER_LANGUAGE = """
    SELECT 1 FROM ibi_identifier name JOIN ibi_item item ON item.id = name.item_id
    WHERE name.archive_id = NEW.archive_id AND name.text = NEW.ibi
    AND coalesce(item.language, '') <> coalesce(NEW.language, '')
"""
#: The item NEW, or that of the identifier NEW, is in a group with another language.
OTHER_LANGUAGE_OF_ITEM = """
    SELECT 1 FROM ibi_translation member
    WHERE member.archive_id = NEW.archive_id AND member.ibi = coalesce(NEW.rep, NEW.ibip)
    AND coalesce(member.language, '') <> coalesce(NEW.language, '')
"""
OTHER_LANGUAGE_OF_NAME = """
    SELECT 1 FROM ibi_translation member JOIN ibi_item item ON item.id = NEW.item_id
    WHERE member.archive_id = NEW.archive_id AND member.ibi = NEW.text
    AND coalesce(member.language, '') <> coalesce(item.language, '')
"""
#: For each trigger: its table, the columns whose update it checks, the name of the constraint, and
#: what must not exist after the change.
REFERENCE_CHECKS = {
    "tr_ibi_item_circle": ("ibi_item", "next_edition", "tr_ibi_item_circle", CIRCLE),
    "tr_ibi_item_reference": (
        "ibi_item",
        "next_edition, metadata_ibi",
        "tr_ibi_reference",
        not_primary("NEW.next_edition", "NEW.metadata_ibi"),
    ),
    "tr_ibi_item_language": (
        "ibi_item",
        "language",
        "tr_ibi_translation_language",
        OTHER_LANGUAGE_OF_ITEM,
    ),
    "tr_ibi_translation_reference": (
        "ibi_translation",
        "ibi, head",
        "tr_ibi_reference",
        not_primary("NEW.ibi", "NEW.head"),
    ),
    "tr_ibi_translation_language": (
        "ibi_translation",
        "ibi, language",
        "tr_ibi_translation_language",
        OTHER_LANGUAGE,
    ),
    "tr_ibi_identifier_reference": ("ibi_identifier", "text", "tr_ibi_reference", REFERENCES),
    "tr_ibi_identifier_language": (
        "ibi_identifier",
        "text",
        "tr_ibi_translation_language",
        OTHER_LANGUAGE_OF_NAME,
    ),
}

#: The note about a change of an item, for the change log.
NOTE_CHANGE = "INSERT INTO ibi_change_note (archive_id, item_id) VALUES (NEW.archive_id, NEW.id);"


def note_member(row: str) -> str:
    """Return the statement that notes a member of a group, and the head, which lists the member."""
    return f"""INSERT INTO ibi_change_note (archive_id, item_id)
        SELECT archive_id, item_id FROM ibi_identifier
        WHERE archive_id = {row}.archive_id AND text IN ({row}.ibi, {row}.head);"""


#: The note about a change of another name of an item, or of its tombstone. ({} is NEW or OLD.)
NOTE_PART = (
    "INSERT INTO ibi_change_note (archive_id, item_id) VALUES ({0}.archive_id, {0}.item_id);"
)
#: The tables of these parts. The forms of an IBI are columns of the item, too.
NOTED_PARTS = ("ibi_identifier", "ibi_same_as", "ibi_tombstone")


def is_other_name(table: str, row: str) -> str:
    """Return the condition that a row of a part is no form of an IBI."""
    return f"{row}.alias_no > 0" if table == "ibi_identifier" else "true"


PARTS = (
    "ibi_identifier",
    "ibi_file",
    "ibi_same_as",
    "ibi_tombstone",
    "ibi_change",
)
DELETE_PARTS = " ".join(f"DELETE FROM {table} WHERE item_id = OLD.id;" for table in PARTS)

SQLITE_TRIGGERS = {
    "tr_ibi_item_copy_insert": f"""BEFORE INSERT ON ibi_item
        WHEN NEW.state = 'Copy' AND EXISTS ({ARCHIVE_IS_HERE}) AND NOT EXISTS ({ORIGINAL_OF})
        BEGIN SELECT RAISE(ABORT, 'tr_ibi_item_copy'); END""",
    "tr_ibi_item_copy_update": f"""BEFORE UPDATE ON ibi_item
        WHEN NEW.state = 'Copy' AND EXISTS ({ARCHIVE_IS_HERE}) AND NOT EXISTS ({ORIGINAL_OF})
        BEGIN SELECT RAISE(ABORT, 'tr_ibi_item_copy'); END""",
    "tr_ibi_item_original_update": f"""BEFORE UPDATE OF state, archive_id ON ibi_item
        WHEN {ORIGINAL_LEAVES} AND EXISTS ({COPIES_OF_OLD})
        BEGIN SELECT RAISE(ABORT, 'tr_ibi_item_original'); END""",
    "tr_ibi_item_original_delete": f"""BEFORE DELETE ON ibi_item
        WHEN OLD.state = 'Original' AND EXISTS ({COPIES_OF_OLD})
        BEGIN SELECT RAISE(ABORT, 'tr_ibi_item_original'); END""",
    "tr_ibi_identifier_original_update": f"""BEFORE UPDATE OF text ON ibi_identifier
        WHEN OLD.state = 'Original' AND NEW.text <> OLD.text AND EXISTS ({COPIES_WITH_OLD})
        BEGIN SELECT RAISE(ABORT, 'tr_ibi_identifier_original'); END""",
    "tr_ibi_identifier_original_delete": f"""BEFORE DELETE ON ibi_identifier
        WHEN OLD.state = 'Original' AND EXISTS ({COPIES_WITH_OLD})
        BEGIN SELECT RAISE(ABORT, 'tr_ibi_identifier_original'); END""",
    "tr_ibi_item_service_update": f"""BEFORE UPDATE ON ibi_item
        WHEN OLD.is_service AND {SERVICE_CHANGES}
        BEGIN SELECT RAISE(ABORT, 'tr_ibi_item_service'); END""",
    "tr_ibi_item_service_delete": """BEFORE DELETE ON ibi_item WHEN OLD.is_service
        BEGIN SELECT RAISE(ABORT, 'tr_ibi_item_service'); END""",
    "tr_ibi_archive_service_insert": """BEFORE INSERT ON ibi_archive WHEN NEW.service_item_id <> 0
        BEGIN SELECT RAISE(ABORT, 'tr_ibi_archive_service'); END""",
    "tr_ibi_archive_service_update": f"""BEFORE UPDATE OF service_item_id ON ibi_archive
        WHEN NOT EXISTS ({SERVICE_OF_NEW})
        BEGIN SELECT RAISE(ABORT, 'tr_ibi_archive_service'); END""",
    **{
        f"tr_ibi_item_changed_{event.lower()}": f"AFTER {event} ON ibi_item BEGIN {NOTE_CHANGE} END"
        for event in ("INSERT", "UPDATE")
    },
    **{
        f"{name}_{event.lower()}": f"""AFTER {event} {f"OF {columns} " * (event == "UPDATE")}ON {table}
        WHEN EXISTS ({unwanted}) BEGIN SELECT RAISE(ABORT, '{constraint}'); END"""
        for name, (table, columns, constraint, unwanted) in REFERENCE_CHECKS.items()
        for event in ("INSERT", "UPDATE")
    },
    **{
        f"tr_ibi_translation_changed_{event.lower()}": f"AFTER {event} ON ibi_translation"
        f" BEGIN {' '.join(note_member(row) for row in rows)} END"
        for event, rows in (("INSERT", ["NEW"]), ("UPDATE", ["OLD", "NEW"]), ("DELETE", ["OLD"]))
    },
    **{
        f"{table.replace('ibi_', 'tr_ibi_')}_changed_{event.lower()}": f"AFTER {event} ON {table}"
        f" WHEN {' OR '.join(is_other_name(table, row) for row in rows)}"
        f" BEGIN {' '.join(NOTE_PART.format(row) for row in rows)} END"
        for table in NOTED_PARTS
        for event, rows in (("INSERT", ["NEW"]), ("UPDATE", ["OLD", "NEW"]), ("DELETE", ["OLD"]))
    },
    # SQLite can be used without checks of foreign keys, as on the connections of a host: then their
    # actions (ON UPDATE CASCADE, ON DELETE CASCADE) do not happen.
    "tr_ibi_item_state": """AFTER UPDATE OF state ON ibi_item WHEN NEW.state <> OLD.state
        BEGIN UPDATE ibi_identifier SET state = NEW.state WHERE item_id = NEW.id; END""",
    "tr_ibi_item_parts": f"AFTER DELETE ON ibi_item BEGIN {DELETE_PARTS} END",
}

# The row of the Original is locked, so that it can't be deleted while its Copy is being made.
POSTGRESQL_FUNCTIONS = {
    "tr_ibi_item_copy": f"""
        original bigint;
    BEGIN
        IF NEW.state = 'Copy' AND EXISTS ({ARCHIVE_IS_HERE}) THEN
            FOR original IN {ORIGINAL_OF} LOOP
                PERFORM 1 FROM ibi_item WHERE id = original AND state = 'Original' FOR SHARE;
                IF FOUND THEN RETURN NEW; END IF;
            END LOOP;
            RAISE EXCEPTION 'a Copy needs its Original'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'tr_ibi_item_copy';
        END IF;
        RETURN NEW;""",
    "tr_ibi_item_original": f"""
    BEGIN
        IF (TG_OP = 'DELETE' AND OLD.state = 'Original' OR TG_OP = 'UPDATE' AND {ORIGINAL_LEAVES})
                AND EXISTS ({COPIES_OF_OLD}) THEN
            RAISE EXCEPTION 'an Original that has Copies stays'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'tr_ibi_item_original';
        END IF;
        IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
        RETURN NEW;""",
    "tr_ibi_identifier_original": f"""
    BEGIN
        IF OLD.state = 'Original' AND (TG_OP = 'DELETE' OR NEW.text <> OLD.text)
                AND EXISTS ({COPIES_WITH_OLD}) THEN
            RAISE EXCEPTION 'an Original keeps what its Copies bear'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'tr_ibi_identifier_original';
        END IF;
        IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
        RETURN NEW;""",
    "tr_ibi_item_service": f"""
    BEGIN
        IF TG_OP = 'DELETE' THEN
            IF NOT OLD.is_service THEN RETURN OLD; END IF;
        ELSIF NOT OLD.is_service OR NOT {SERVICE_CHANGES} THEN
            RETURN NEW;
        END IF;
        RAISE EXCEPTION 'the service item of an Archive stays'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'tr_ibi_item_service';""",
    "tr_ibi_archive_service": f"""
    BEGIN
        IF TG_OP = 'INSERT' AND NEW.service_item_id <> 0
                OR TG_OP = 'UPDATE' AND NOT EXISTS ({SERVICE_OF_NEW}) THEN
            RAISE EXCEPTION 'the service of an Archive is its service item'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'tr_ibi_archive_service';
        END IF;
        RETURN NEW;""",
    "tr_ibi_item_changed": f"BEGIN {NOTE_CHANGE} RETURN NULL;",
    "tr_ibi_translation_changed": f"""
    BEGIN
        IF TG_OP <> 'INSERT' THEN {note_member("OLD")} END IF;
        IF TG_OP <> 'DELETE' THEN {note_member("NEW")} END IF;
        RETURN NULL;""",
    **{
        f"{table.replace('ibi_', 'tr_ibi_')}_changed": f"""
    BEGIN
        IF TG_OP <> 'INSERT' THEN
            IF {is_other_name(table, "OLD")} THEN {NOTE_PART.format("OLD")} END IF;
        END IF;
        IF TG_OP <> 'DELETE' THEN
            IF {is_other_name(table, "NEW")} THEN {NOTE_PART.format("NEW")} END IF;
        END IF;
        RETURN NULL;"""
        for table in NOTED_PARTS
    },
    **{
        name: f"""
    BEGIN
        IF EXISTS ({unwanted}) THEN
            RAISE EXCEPTION 'a reference is refused'
                USING ERRCODE = 'check_violation', CONSTRAINT = '{constraint}';
        END IF;
        RETURN NULL;"""
        for name, (_, _, constraint, unwanted) in REFERENCE_CHECKS.items()
    },
    # step by step: of the recursive statement, PostgreSQL would expect too many rows
    "tr_ibi_item_circle": """
        step text = coalesce(NEW.rep, NEW.ibip);
    BEGIN
        WHILE NEW.next_edition IS NOT NULL AND step IS NOT NULL LOOP
            IF step = NEW.next_edition THEN
                RAISE EXCEPTION 'the chain of editions is a circle'
                    USING ERRCODE = 'check_violation', CONSTRAINT = 'tr_ibi_item_circle';
            END IF;
            step = (SELECT coalesce(rep, ibip) FROM ibi_item
                WHERE archive_id = NEW.archive_id AND next_edition = step);
        END LOOP;
        RETURN NULL;""",
}
POSTGRESQL_TRIGGERS = {
    "tr_ibi_item_copy": "BEFORE INSERT OR UPDATE ON ibi_item",
    "tr_ibi_item_original": "BEFORE UPDATE OF state, archive_id OR DELETE ON ibi_item",
    "tr_ibi_identifier_original": "BEFORE UPDATE OF text OR DELETE ON ibi_identifier",
    "tr_ibi_item_service": "BEFORE UPDATE OR DELETE ON ibi_item",
    "tr_ibi_archive_service": "BEFORE INSERT OR UPDATE OF service_item_id ON ibi_archive",
    "tr_ibi_item_changed": "AFTER INSERT OR UPDATE ON ibi_item",
    "tr_ibi_translation_changed": "AFTER INSERT OR UPDATE OR DELETE ON ibi_translation",
    **{
        f"{table.replace('ibi_', 'tr_ibi_')}_changed": f"AFTER INSERT OR UPDATE OR DELETE ON {table}"
        for table in NOTED_PARTS
    },
    **{
        name: f"AFTER INSERT OR UPDATE OF {columns} ON {table}"
        for name, (table, columns, _, _) in REFERENCE_CHECKS.items()
    },
}


def define_tables(dialect: str) -> sa.MetaData:
    """Return the tables for a database."""
    metadata = sa.MetaData()
    sa.Table(
        "ibi_archive",
        metadata,
        sa.Column("id", KEY, primary_key=True, autoincrement=True),
        sa.Column("service_item_id", KEY, nullable=False),
        sa.Column("address", sa.String(255), nullable=False),
        sa.Column("ip", sa.String(45)),
        sa.Column("protocol", sa.String(4), nullable=False, server_default="HTTP"),
        sa.Column("platform_version", sa.String(255), nullable=False),
        sa.Column("admin_email", sa.String(255)),
        sa.Column("database", sa.String(32), nullable=False),
        sa.CheckConstraint("protocol = 'HTTP'", name="ck_ibi_archive_protocol"),
        sa.ForeignKeyConstraint(
            ["service_item_id", "id"],
            ["ibi_item.id", "ibi_item.archive_id"],
            name="fk_ibi_archive_service",
            **DEFERRED,
        ),
    )
    sa.Table(
        "ibi_item",
        metadata,
        sa.Column("id", KEY, primary_key=True, autoincrement=True),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("state", sa.String(9), nullable=False),
        sa.Column("rep", sa.String(255)),
        sa.Column("ibip", sa.String(255)),
        sa.Column("timestamp", MOMENT, nullable=False),
        sa.Column("content_type", sa.String(8), nullable=False, server_default="Data"),
        sa.Column("language", sa.String(5)),
        sa.Column("transferable", sa.Boolean(), nullable=False, server_default=sa.true()),
        sa.Column("is_service", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("original_archive", sa.String(255)),
        sa.Column("next_edition", sa.String(255)),
        sa.Column("metadata_ibi", sa.String(255)),
        sa.Column("metadata_url", sa.Text()),
        sa.Column("metadata_formats", sa.JSON()),
        sa.Column("metadata_timestamp", MOMENT),
        sa.Column("formats", sa.JSON()),
        sa.Column("target_path", sa.Text()),
        sa.Column("list_files", sa.Boolean(), nullable=False, server_default=sa.true()),
        sa.Column("access_networks", sa.Text()),
        sa.Column("access_others", sa.String(8)),
        sa.Column("dublin_core", sa.JSON()),
        sa.Column("work", sa.JSON()),
        sa.Column("embargo", sa.Date()),
        sa.Column("host_key", HOST_KEY),
        sa.Column("issued_year", sa.Integer()),
        sa.UniqueConstraint("id", "archive_id", "state", name="uq_ibi_item_state"),
        sa.UniqueConstraint("id", "archive_id", name="uq_ibi_item_archive"),
        sa.UniqueConstraint("archive_id", "next_edition", name="uq_ibi_item_edition"),
        sa.ForeignKeyConstraint(["archive_id"], ["ibi_archive.id"], name="fk_ibi_item_archive"),
        sa.CheckConstraint("state IN ('Original', 'Copy', 'Deleted')", name="ck_ibi_item_state"),
        sa.CheckConstraint("rep IS NOT NULL OR ibip IS NOT NULL", name="ck_ibi_item_forms"),
        sa.CheckConstraint(forms(dialect), name="ck_ibi_item_grammar"),
        sa.CheckConstraint(
            "(state = 'Copy') = (original_archive IS NOT NULL)",
            name="ck_ibi_item_original_archive",
        ),
        sa.CheckConstraint(
            "NOT is_service OR (state = 'Original' AND NOT transferable AND next_edition IS NULL)",
            name="ck_ibi_item_service",
        ),
        sa.CheckConstraint("content_type IN ('Data', 'Metadata')", name="ck_ibi_item_content_type"),
        sa.CheckConstraint(
            "(CASE WHEN metadata_ibi IS NULL THEN 0 ELSE 1 END)"
            " + (CASE WHEN metadata_url IS NULL THEN 0 ELSE 1 END)"
            " + (CASE WHEN dublin_core IS NULL THEN 0 ELSE 1 END) <= 1",
            name="ck_ibi_item_metadata",
        ),
        sa.CheckConstraint("work IS NULL OR dublin_core IS NOT NULL", name="ck_ibi_item_work"),
        sa.CheckConstraint(
            "(access_networks IS NULL) = (access_others IS NULL)"
            " AND (access_others IS NULL OR access_others IN ('metadata', 'none'))",
            name="ck_ibi_item_access",
        ),
        sa.CheckConstraint("embargo IS NULL OR NOT is_service", name="ck_ibi_item_embargo"),
        sa.CheckConstraint(
            "host_key IS NULL OR (host_key <> '' AND NOT is_service)", name="ck_ibi_item_key"
        ),
        sa.ForeignKeyConstraint(
            ["id", "rep"],
            ["ibi_identifier.item_id", "ibi_identifier.text"],
            name="fk_ibi_item_rep",
            **DEFERRED,
        ),
        sa.ForeignKeyConstraint(
            ["id", "ibip"],
            ["ibi_identifier.item_id", "ibi_identifier.text"],
            name="fk_ibi_item_ibip",
            **DEFERRED,
        ),
        sa.ForeignKeyConstraint(
            ["id", "target_path"],
            ["ibi_file.item_id", "ibi_file.path"],
            name="fk_ibi_item_target",
            **DEFERRED,
        ),
        sa.Index("ix_ibi_item_archive", "archive_id", "id"),
        sa.Index("ix_ibi_item_metadata", "archive_id", "metadata_ibi"),
        sa.Index(
            "uq_ibi_item_service",
            "archive_id",
            unique=True,
            sqlite_where=sa.text("is_service"),
            postgresql_where=sa.text("is_service"),
        ),
        sa.Index("ix_ibi_item_timestamp", "archive_id", "timestamp", "id"),
        sa.Index("ix_ibi_item_year", "archive_id", "issued_year", "id"),
        sa.Index(
            "uq_ibi_item_key",
            "archive_id",
            "host_key",
            unique=True,
            sqlite_where=sa.text("host_key IS NOT NULL"),
            postgresql_where=sa.text("host_key IS NOT NULL"),
        ),
        sqlite_autoincrement=True,
    )
    sa.Table(
        "ibi_translation",
        metadata,
        sa.Column("archive_id", KEY, primary_key=True, autoincrement=False),
        sa.Column("ibi", sa.String(255), primary_key=True),
        sa.Column("head", sa.String(255), nullable=False),
        sa.Column("language", sa.String(5)),
        sa.ForeignKeyConstraint(
            ["archive_id"], ["ibi_archive.id"], name="fk_ibi_translation_archive"
        ),
        sa.UniqueConstraint("archive_id", "head", "language", name="uq_ibi_translation_language"),
    )
    sa.Table(
        "ibi_identifier",
        metadata,
        sa.Column("text", sa.String(255), primary_key=True),
        sa.Column("archive_id", KEY, primary_key=True, autoincrement=False),
        sa.Column("item_id", KEY, nullable=False),
        sa.Column("state", sa.String(9), nullable=False),
        sa.Column("form", sa.String(6), nullable=False),
        sa.Column("alias_no", sa.Integer(), nullable=False, server_default="0"),
        sa.UniqueConstraint("item_id", "text", name="uq_ibi_identifier_item"),
        sa.ForeignKeyConstraint(
            ["item_id", "archive_id", "state"],
            ["ibi_item.id", "ibi_item.archive_id", "ibi_item.state"],
            name="fk_ibi_identifier_item",
            onupdate="CASCADE",
            ondelete="CASCADE",
        ),
        sa.CheckConstraint(grammar(dialect), name="ck_ibi_identifier_grammar"),
        sa.Index(
            "uq_ibi_identifier_original",
            "text",
            unique=True,
            sqlite_where=sa.text("state = 'Original'"),
            postgresql_where=sa.text("state = 'Original'"),
        ),
    )
    sa.Table(
        "ibi_file",
        metadata,
        sa.Column("item_id", KEY, primary_key=True, autoincrement=False),
        sa.Column("path", sa.Text(), primary_key=True),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("url", sa.Text()),
        sa.Column("sha256", sa.String(64)),
        sa.Column("size", KEY),
        sa.Column("source", sa.Text()),
        sa.Column("source_modified", KEY),
        sa.ForeignKeyConstraint(
            ["item_id"], ["ibi_item.id"], name="fk_ibi_file_item", ondelete="CASCADE"
        ),
        sa.CheckConstraint("size IS NULL OR sha256 IS NOT NULL", name="ck_ibi_file_stored"),
    )
    sa.Table(
        "ibi_same_as",
        metadata,
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("archive_id", KEY, primary_key=True, autoincrement=False),
        sa.Column("item_id", KEY, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["item_id", "archive_id"],
            ["ibi_item.id", "ibi_item.archive_id"],
            name="fk_ibi_same_as_item",
            ondelete="CASCADE",
        ),
        sa.Index("ix_ibi_same_as_item", "item_id"),
    )
    sa.Table(
        "ibi_prefix",
        metadata,
        sa.Column("prefix", sa.String(255), primary_key=True),
        sa.Column("last_date", sa.String(255), nullable=False),
    )
    sa.Table(
        "ibi_tombstone",
        metadata,
        sa.Column("item_id", KEY, autoincrement=False, nullable=False),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("state", sa.String(9), server_default="Deleted", nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("citation", sa.Text()),
        sa.Column("successor", sa.String(255)),
        sa.Column("original_archive", sa.String(255)),
        sa.CheckConstraint("state = 'Deleted'", name="ck_ibi_tombstone_state"),
        sa.ForeignKeyConstraint(
            ["item_id", "archive_id", "state"],
            ["ibi_item.id", "ibi_item.archive_id", "ibi_item.state"],
            name="fk_ibi_tombstone_item",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("item_id"),
    )
    sa.Table(
        "ibi_reservation",
        metadata,
        sa.Column("rep", sa.String(255), nullable=False),
        sa.Column("ibip", sa.String(255), nullable=False),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("status", sa.String(8), server_default="held", nullable=False),
        sa.Column("note", sa.Text()),
        sa.Column("reserved_at", MOMENT, nullable=False),
        sa.Column("settled_at", MOMENT),
        sa.Column("host_key", HOST_KEY),
        sa.CheckConstraint(
            "status IN ('held', 'used', 'released')", name="ck_ibi_reservation_status"
        ),
        sa.CheckConstraint(
            "host_key IS NULL OR (host_key <> '' AND status = 'held')",
            name="ck_ibi_reservation_key",
        ),
        sa.ForeignKeyConstraint(
            ["archive_id"], ["ibi_archive.id"], name="fk_ibi_reservation_archive"
        ),
        sa.PrimaryKeyConstraint("rep"),
        sa.UniqueConstraint("ibip", name="uq_ibi_reservation_ibip"),
        sa.Index("ix_ibi_reservation_archive", "archive_id", "status", "reserved_at"),
        sa.Index(
            "uq_ibi_reservation_key",
            "archive_id",
            "host_key",
            unique=True,
            sqlite_where=sa.text("host_key IS NOT NULL"),
            postgresql_where=sa.text("host_key IS NOT NULL"),
        ),
    )
    sa.Table(
        "ibi_registration",
        metadata,
        sa.Column("archive_id", KEY, autoincrement=False, nullable=False),
        sa.Column("resolver_url", sa.Text(), nullable=False),
        sa.Column("address", sa.String(255)),
        sa.Column("ip", sa.String(45)),
        sa.Column("registered_at", MOMENT),
        sa.Column("included_at", MOMENT),
        sa.Column("confirmed_at", MOMENT),
        sa.Column("excluded_at", MOMENT),
        sa.Column("error", sa.Text()),
        sa.Column("error_at", MOMENT),
        sa.CheckConstraint(
            "(error IS NULL) = (error_at IS NULL)", name="ck_ibi_registration_error"
        ),
        sa.CheckConstraint(
            "confirmed_at IS NULL OR included_at IS NOT NULL", name="ck_ibi_registration_confirmed"
        ),
        sa.CheckConstraint(
            "included_at IS NULL OR (registered_at IS NOT NULL AND address IS NOT NULL)",
            name="ck_ibi_registration_included",
        ),
        sa.ForeignKeyConstraint(
            ["archive_id"], ["ibi_archive.id"], name="fk_ibi_registration_archive"
        ),
        sa.PrimaryKeyConstraint("archive_id"),
    )
    sa.Table(
        "ibi_archive_elsewhere",
        metadata,
        sa.Column("archive_id", KEY, primary_key=True, autoincrement=False),
        sa.Column("service_ibi", sa.String(255), primary_key=True),
        sa.Column("address", sa.String(255), nullable=False),
        sa.ForeignKeyConstraint(
            ["archive_id"], ["ibi_archive.id"], name="fk_ibi_archive_elsewhere_archive"
        ),
    )
    sa.Table(
        "ibi_access",
        metadata,
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("url_key", sa.String(64), nullable=False),
        sa.Column("ibi", sa.String(255), nullable=False),
        sa.Column("second", sa.BigInteger(), nullable=False),
        sa.Column("visitor", sa.String(16), nullable=False),
        sa.Column("address", sa.String(45), nullable=False),
        sa.Column("robot", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("content_type", sa.String(8), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "content_type IN ('Data', 'Metadata')", name="ck_ibi_access_content_type"
        ),
        sa.ForeignKeyConstraint(["archive_id"], ["ibi_archive.id"], name="fk_ibi_access_archive"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("url_key", name="uq_ibi_access_url_key"),
        sa.Index("ix_ibi_access_archive", "archive_id", "second"),
        sa.Index("ix_ibi_access_visitor", "visitor", "second"),
        sqlite_autoincrement=True,
    )
    sa.Table(
        "ibi_access_count",
        metadata,
        sa.Column("archive_id", KEY, autoincrement=False, nullable=False),
        sa.Column("ibi", sa.String(255), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("content_type", sa.String(8), nullable=False),
        sa.Column("accesses", sa.BigInteger(), nullable=False),
        sa.Column("double_clicks", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("robots", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "content_type IN ('Data', 'Metadata')", name="ck_ibi_access_count_content_type"
        ),
        sa.ForeignKeyConstraint(
            ["archive_id"], ["ibi_archive.id"], name="fk_ibi_access_count_archive"
        ),
        sa.PrimaryKeyConstraint("archive_id", "ibi", "day", "content_type"),
        sa.Index("ix_ibi_access_count_archive", "archive_id", "day"),
    )
    sa.Table(
        "ibi_visitor_salt",
        metadata,
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("salt", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("day"),
    )
    sa.Table(
        "ibi_file_check",
        metadata,
        sa.Column("archive_id", KEY, autoincrement=False, nullable=False),
        sa.Column("checked_at", MOMENT, nullable=False),
        sa.Column("faults", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["archive_id"], ["ibi_archive.id"], name="fk_ibi_file_check_archive"
        ),
        sa.PrimaryKeyConstraint("archive_id"),
    )
    sa.Table(
        "ibi_archive_access_count",
        metadata,
        sa.Column("archive_id", KEY, autoincrement=False, nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("content_type", sa.String(8), nullable=False),
        sa.Column("accesses", sa.BigInteger(), nullable=False),
        sa.Column("double_clicks", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("robots", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "content_type IN ('Data', 'Metadata')", name="ck_ibi_archive_access_count_content_type"
        ),
        sa.ForeignKeyConstraint(
            ["archive_id"], ["ibi_archive.id"], name="fk_ibi_archive_access_count_archive"
        ),
        sa.PrimaryKeyConstraint("archive_id", "day", "content_type"),
    )
    sa.Table(
        "ibi_change_note",
        metadata,
        sa.Column("id", KEY, primary_key=True, autoincrement=True),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("item_id", KEY, nullable=False),
        sa.Index("ix_ibi_change_note_archive", "archive_id", "id"),
        sqlite_autoincrement=True,
    )
    sa.Table(
        "ibi_change",
        metadata,
        sa.Column("item_id", KEY, primary_key=True, autoincrement=False),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("is_deleted", sa.Boolean()),
        sa.Column("sets", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("claim", sa.Text()),
        sa.Column("hidden_prefixes", sa.Text()),
        sa.ForeignKeyConstraint(
            ["item_id", "archive_id"],
            ["ibi_item.id", "ibi_item.archive_id"],
            name="fk_ibi_change_item",
            ondelete="CASCADE",
        ),
        sa.UniqueConstraint("archive_id", "number", name="uq_ibi_change_number"),
        sa.Index(
            "ix_ibi_change_hidden",
            "archive_id",
            "hidden_prefixes",
            sqlite_where=sa.text("hidden_prefixes IS NOT NULL"),
            postgresql_where=sa.text("hidden_prefixes IS NOT NULL"),
        ),
    )
    sa.Table(
        "ibi_change_batch",
        metadata,
        sa.Column("archive_id", KEY, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("word", sa.String(16), nullable=False),
        sa.Column("datestamp", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["archive_id"],
            ["ibi_archive.id"],
            name="fk_ibi_change_batch_archive",
            ondelete="CASCADE",
        ),
    )
    sa.Table(
        "ibi_change_end",
        metadata,
        sa.Column("archive_id", KEY, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("datestamp", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["archive_id"],
            ["ibi_archive.id"],
            name="fk_ibi_change_end_archive",
            ondelete="CASCADE",
        ),
    )
    sa.Table(
        "ibi_api_key",
        metadata,
        sa.Column("id", KEY, primary_key=True, autoincrement=True),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("key_hash", sa.String(64), nullable=False),
        sa.Column("scopes", sa.String(100), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT),
        sa.Column("revoked_at", MOMENT),
        sa.ForeignKeyConstraint(["archive_id"], ["ibi_archive.id"], name="fk_ibi_api_key_archive"),
        sa.UniqueConstraint("archive_id", "name", name="uq_ibi_api_key_name"),
        sa.UniqueConstraint("key_hash", name="uq_ibi_api_key_hash"),
        sqlite_autoincrement=True,
    )
    sa.Table(
        "ibi_issued_identifier",
        metadata,
        sa.Column("id", KEY, primary_key=True, autoincrement=True),
        sa.Column("key_id", KEY, nullable=False),
        sa.Column("repeat_key", sa.String(255)),
        sa.Column("content_hash", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("rep", sa.String(255), nullable=False),
        sa.Column("ibip", sa.String(255), nullable=False),
        sa.Column("issued_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["key_id"], ["ibi_api_key.id"], name="fk_ibi_issued_identifier_key"
        ),
        sa.UniqueConstraint("rep", name="uq_ibi_issued_identifier_rep"),
        sa.UniqueConstraint("ibip", name="uq_ibi_issued_identifier_ibip"),
        sa.UniqueConstraint(
            "key_id", "repeat_key", "number", name="uq_ibi_issued_identifier_request"
        ),
        sa.Index("ix_ibi_issued_identifier_key", "key_id", "id"),
        sqlite_autoincrement=True,
    )
    sa.Table(
        "ibi_offer",
        metadata,
        sa.Column("id", KEY, primary_key=True, autoincrement=True),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("secret_hash", sa.String(64), nullable=False),
        sa.Column("taker", sa.String(255), nullable=False),
        sa.Column("leaves", sa.String(7)),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.Column("withdrawn_at", MOMENT),
        sa.CheckConstraint("leaves IN ('Copy', 'Deleted')", name="ck_ibi_offer_leaves"),
        sa.ForeignKeyConstraint(["archive_id"], ["ibi_archive.id"], name="fk_ibi_offer_archive"),
        sa.UniqueConstraint("public_id", name="uq_ibi_offer_public_id"),
        sqlite_autoincrement=True,
    )
    sa.Table(
        "ibi_offered_item",
        metadata,
        sa.Column("offer_id", KEY, primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("item_id", KEY, nullable=False),
        sa.Column("counts", sa.JSON()),
        sa.ForeignKeyConstraint(["offer_id"], ["ibi_offer.id"], name="fk_ibi_offered_item_offer"),
        sa.ForeignKeyConstraint(["item_id"], ["ibi_item.id"], name="fk_ibi_offered_item_item"),
        sa.UniqueConstraint("offer_id", "item_id", name="uq_ibi_offered_item_item"),
        sa.Index("ix_ibi_offered_item_item", "item_id"),
    )
    sa.Table(
        "ibi_received_item",
        metadata,
        sa.Column("item_id", KEY, primary_key=True, autoincrement=False),
        sa.Column("giver", sa.String(255), nullable=False),
        sa.ForeignKeyConstraint(["item_id"], ["ibi_item.id"], name="fk_ibi_received_item_item"),
    )
    return metadata


def upgrade() -> None:
    """Create the tables, then the triggers."""
    connection = op.get_bind()
    dialect = connection.dialect.name
    metadata = define_tables(dialect)
    if dialect == "sqlite":
        for table in metadata.tables.values():
            # Without AUTOINCREMENT, SQLite would use the numbers of deleted rows again. SQLAlchemy
            # omits it from a key that is a part of a foreign key.
            created = str(CreateTable(table).compile(connection))
            connection.exec_driver_sql(
                created.replace("PRIMARY KEY (id)", "PRIMARY KEY (id AUTOINCREMENT)")
            )
            for index in sorted(table.indexes, key=lambda index: str(index.name)):
                index.create(connection)
        for name, body in SQLITE_TRIGGERS.items():
            op.execute(sa.DDL(f"CREATE TRIGGER {name} {body}"))
        return
    metadata.create_all(connection, checkfirst=False)
    for name, body in POSTGRESQL_FUNCTIONS.items():
        start = "" if body.lstrip().startswith("BEGIN") else "DECLARE"
        op.execute(
            sa.DDL(
                f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ {start} {body}"
                " END $$"
            )
        )
        op.execute(
            sa.DDL(
                f"CREATE TRIGGER {name} {POSTGRESQL_TRIGGERS[name]}"
                f" FOR EACH ROW EXECUTE FUNCTION {name}()"
            )
        )


def downgrade() -> None:
    """Drop the triggers and the tables."""
    connection = op.get_bind()
    metadata = define_tables(connection.dialect.name)
    if connection.dialect.name != "sqlite":
        for name in POSTGRESQL_FUNCTIONS:
            op.execute(sa.DDL(f"DROP FUNCTION {name}() CASCADE"))
        metadata.drop_all(connection, checkfirst=False)
        return
    for name in SQLITE_TRIGGERS:
        op.execute(sa.DDL(f"DROP TRIGGER {name}"))
    # SQLite empties a table before it drops the table. The tables are in the order in which they
    # refer to each other, but files and items also refer to each other.
    op.execute("DELETE FROM ibi_file")
    op.execute("UPDATE ibi_item SET target_path = NULL")
    for table in reversed(metadata.tables.values()):
        op.drop_table(table.name)
