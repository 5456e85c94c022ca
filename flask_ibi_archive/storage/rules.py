"""The eight rules of the storage model, and which constraint of the database keeps each.

====  =============================================================
==================================== rule  what it says
     kept by ====  =============================================================
     ====================================
1     in one Archive at most one item bears an identifier            ibi_identifier_pkey
2     an item is Original, Copy or Deleted                           ck_ibi_item_state
3     an identifier has at most one Original in the database         uq_ibi_identifier_original
4     a Copy has its Original; an Original with Copies stays         tr_ibi_item_copy,
                                                                     tr_ibi_item_original,
                                                                     tr_ibi_identifier_original,
                                                                     ck_ibi_item_original_archive
5     an item has a form of IBI, each obeys its grammar              ck_ibi_item_forms,
                                                                     ck_ibi_item_grammar,
                                                                     ck_ibi_identifier_grammar,
                                                                     fk_ibi_item_rep,
                                                                     fk_ibi_item_ibip
6     an Archive has one service item, which stays as it is          uq_ibi_item_service,
                                                                     ck_ibi_item_service,
                                                                     tr_ibi_item_service,
                                                                     tr_ibi_archive_service,
                                                                     fk_ibi_archive_service
7     editions form a chain without cycles: each has its number in   uq_ibi_item_edition,
      ck_ibi_item_edition its series
8     in a group of translations each language occurs once           uq_ibi_item_translation
====  =============================================================
====================================
"""

from __future__ import annotations

from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.errors import RuleBroken

RULES = {
    1: "an item of this Archive bears that identifier already",
    2: "a state is Original, Copy or Deleted",
    3: "another Archive of the database holds the Original",
    4: "a Copy needs its Original, and an Original that has Copies stays",
    5: "an item needs an IBI that obeys its grammar, in canonical case",
    6: "the service item of an Archive stays as it is, and is the only one",
    7: "an item has one next edition at most, and is the next edition of one at most",
    8: "in a group of translations each language occurs once",
}

CONSTRAINTS = {
    "ibi_identifier_pkey": 1,
    "uq_ibi_identifier_item": 1,
    "ck_ibi_item_state": 2,
    "uq_ibi_identifier_original": 3,
    "tr_ibi_item_copy": 4,
    "tr_ibi_item_original": 4,
    "tr_ibi_identifier_original": 4,
    "ck_ibi_item_original_archive": 4,
    "ck_ibi_item_forms": 5,
    "ck_ibi_item_grammar": 5,
    "ck_ibi_identifier_grammar": 5,
    "fk_ibi_item_rep": 5,
    "fk_ibi_item_ibip": 5,
    "uq_ibi_item_service": 6,
    "ck_ibi_item_service": 6,
    "tr_ibi_item_service": 6,
    "tr_ibi_archive_service": 6,
    "fk_ibi_archive_service": 6,
    "uq_ibi_item_edition": 7,
    "ck_ibi_item_edition": 7,
    "uq_ibi_item_translation": 8,
}

#: SQLite names the columns of a unique constraint, not the constraint.
SQLITE_COLUMNS = {
    "ibi_identifier.text, ibi_identifier.archive_id": "ibi_identifier_pkey",
    "ibi_identifier.item_id, ibi_identifier.text": "uq_ibi_identifier_item",
    "ibi_identifier.text": "uq_ibi_identifier_original",
    "ibi_item.archive_id": "uq_ibi_item_service",
    "ibi_item.edition_series_id, ibi_item.edition_no": "uq_ibi_item_edition",
    "ibi_item.translation_group_id, ibi_item.language": "uq_ibi_item_translation",
}


def constraint_of(error: IntegrityError) -> str | None:
    """Return the name of the constraint that refused a statement; None where SQLite doesn't say."""
    diagnosis = getattr(error.orig, "diag", None)
    if diagnosis is not None:
        name: str | None = diagnosis.constraint_name
        return name
    kind, _, rest = str(error.orig).partition(" constraint failed: ")
    if kind == "UNIQUE":
        return SQLITE_COLUMNS.get(rest)
    return rest or (kind if kind in CONSTRAINTS else None)


def explain(error: IntegrityError, ibi: str | None = None) -> RuleBroken | None:
    """Return the rule that a refused statement would have broken, None where it is none of the
    eight.

    :param ibi: the item that the statement was about.
    """
    rule = CONSTRAINTS.get(constraint_of(error) or "")
    return None if rule is None else RuleBroken(rule, ibi, RULES[rule])
