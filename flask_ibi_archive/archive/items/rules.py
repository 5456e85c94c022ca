"""The eight rules of the storage model, and the database constraints that enforce them.

====  ==============================================  ============================
rule  meaning                                         constraints
====  ==============================================  ============================
1     at most one item of an Archive has an           ibi_identifier_pkey
      identifier
2     an item is Original, Copy or Deleted            ck_ibi_item_state
3     an identifier has at most one Original in the   uq_ibi_identifier_original
      database
4     a Copy has an Original; an Original with        tr_ibi_item_copy,
      Copies cannot be removed                        tr_ibi_item_original,
                                                      tr_ibi_identifier_original,
                                                      ck_ibi_item_original_archive
5     an item has at least one form of IBI, and       ck_ibi_item_forms,
      each form follows its grammar                   ck_ibi_item_grammar,
                                                      ck_ibi_identifier_grammar,
                                                      fk_ibi_item_rep,
                                                      fk_ibi_item_ibip
6     an Archive has one service item, which          uq_ibi_item_service,
      cannot be changed                               ck_ibi_item_service,
                                                      tr_ibi_item_service,
                                                      tr_ibi_archive_service,
                                                      fk_ibi_archive_service
7     editions form a chain without circles           uq_ibi_item_edition,
                                                      tr_ibi_item_circle
8     each language occurs once in a group of         uq_ibi_translation_language,
      translations, and is that of the item           tr_ibi_translation_language
====  ==============================================  ============================

Beside these rules, at most one item of an Archive has a key of the host (uq_ibi_item_key), and the
service item has none (ck_ibi_item_key). At most one item of an Archive has an identifier of another
system or a former address (ibi_same_as_pkey).
"""

from __future__ import annotations

from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.errors import RuleBroken, StorageError

#: The messages of the rules by number.
RULES = {
    1: "another item of this Archive already has this identifier",
    2: "the state must be Original, Copy or Deleted",
    3: "another Archive of the database already has the Original of this item",
    4: "each Copy must have an Original, and an Original that has Copies cannot be removed",
    5: "an item must have an IBI that follows the grammar and is written in canonical case",
    6: "an Archive must have exactly one service item, and the service item cannot be changed",
    7: "an item has at most one next edition, and is the next edition of at most one item",
    8: "each language must occur only once in a group of translations",
}

_NAMES = {
    1: "ibi_identifier_pkey uq_ibi_identifier_item",
    2: "ck_ibi_item_state",
    3: "uq_ibi_identifier_original",
    4: "tr_ibi_item_copy tr_ibi_item_original tr_ibi_identifier_original "
    "ck_ibi_item_original_archive",
    5: "ck_ibi_item_forms ck_ibi_item_grammar ck_ibi_identifier_grammar fk_ibi_item_rep "
    "fk_ibi_item_ibip",
    6: "uq_ibi_item_service ck_ibi_item_service tr_ibi_item_service tr_ibi_archive_service "
    "fk_ibi_archive_service",
    7: "uq_ibi_item_edition tr_ibi_item_circle",
    8: "uq_ibi_translation_language tr_ibi_translation_language",
}
#: The numbers of the rules by the names of their constraints.
CONSTRAINTS = {name: rule for rule, names in _NAMES.items() for name in names.split()}

#: What the user did, for constraints of rules that several constraints enforce.
EXPLANATIONS = {
    "uq_ibi_item_edition": "the chosen next edition is already the next edition of another item",
    "tr_ibi_item_circle": "the chain of editions would become a circle",
    "tr_ibi_translation_language": "the item is in a group of translations with another language",
}

#: The constraint on the keys of the host.
KEY = "uq_ibi_item_key"

#: The constraint on identifiers of other systems and former addresses.
SAME_AS = "ibi_same_as_pkey"

#: SQLite names the columns of a failed constraint. This table contains the constraint on these
#: columns.
SQLITE_COLUMNS = {
    "ibi_identifier.text, ibi_identifier.archive_id": "ibi_identifier_pkey",
    "ibi_identifier.item_id, ibi_identifier.text": "uq_ibi_identifier_item",
    "ibi_identifier.text": "uq_ibi_identifier_original",
    "ibi_item.archive_id": "uq_ibi_item_service",
    "ibi_item.archive_id, ibi_item.host_key": KEY,
    "ibi_same_as.digest, ibi_same_as.archive_id": SAME_AS,
    "ibi_item.archive_id, ibi_item.next_edition": "uq_ibi_item_edition",
    "ibi_translation.archive_id, ibi_translation.head, ibi_translation.language": (
        "uq_ibi_translation_language"
    ),
}


def find_constraint(error: IntegrityError) -> str | None:
    """Return the name of the constraint that failed; None if the name is unknown."""
    diagnosis = getattr(error.orig, "diag", None)
    if diagnosis is not None:
        name: str | None = diagnosis.constraint_name
        return name
    kind, _, rest = str(error.orig).partition(" constraint failed: ")
    if kind == "UNIQUE":
        return SQLITE_COLUMNS.get(rest)
    return rest or (kind if kind in CONSTRAINTS else None)


def find_broken_rule(error: IntegrityError, ibi: str | None = None) -> RuleBroken | None:
    """Convert an error of the database to the error of the rule that was broken.

    :param error: the error of the database.
    :param ibi: the identifier of the item, for the message.
    :returns: None if the failed constraint does not belong to a rule.
    """
    name = find_constraint(error) or ""
    rule = CONSTRAINTS.get(name)
    return None if rule is None else RuleBroken(rule, ibi, EXPLANATIONS.get(name, RULES[rule]))


def explain_refusal(error: IntegrityError, ibi: str | None = None) -> StorageError:
    """Convert an error of the database to an error that names the broken rule or constraint."""
    if find_constraint(error) == KEY:
        return StorageError("key: another item of this Archive already has this key")
    if find_constraint(error) == SAME_AS:
        return StorageError("same_as: another item of this Archive already has one of the aliases")
    return find_broken_rule(error, ibi) or StorageError(
        f"the database refuses the change: {error.orig}"
    )
