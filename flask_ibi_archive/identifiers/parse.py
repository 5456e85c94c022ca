"""Texts to identifiers."""

from __future__ import annotations

from flask_ibi_archive.errors import IdentifierError
from flask_ibi_archive.identifiers.diagnosis import explain_refusal
from flask_ibi_archive.identifiers.identifier import Form, Identifier, match_identifier
from flask_ibi_archive.identifiers.suggest import suggest_identifier
from flask_ibi_archive.reasons import Reason


def parse_identifier(text: str) -> Identifier:
    """Return the identifier that a text is, of any of the three kinds.

    :param text: repository name or IBIp in either case, or legacy identifier; nothing around it.
    :returns: the identifier with its canonical text.
    :raises IdentifierError: with the part that is wrong, and with the identifier that was probably
        meant where exactly one repair gives one.
    Source: [G] Tables 6.1 and 7.1 with their semantic rules.
    """
    identifier = match_identifier(text)
    if identifier is None:
        raise IdentifierError(text, explain_refusal(text), suggest_identifier(text))
    return identifier


def parse_repository_name(text: str) -> Identifier:
    """Return the identifier that a text is, if it is a repository name.

    :raises IdentifierError: if it is no identifier or one of another kind.
    Source: [G] Table 6.1.
    """
    return _parse_form(text, Form.REP)


def parse_ibip(text: str) -> Identifier:
    """Return the identifier that a text is, if it is an IBIp.

    :raises IdentifierError: if it is no identifier or one of another kind.
    Source: [G] Table 7.1.
    """
    return _parse_form(text, Form.IBIP)


def _parse_form(text: str, form: Form) -> Identifier:
    identifier = parse_identifier(text)
    if identifier.form is not form:
        raise IdentifierError(text, Reason(f"{form}_required", form=identifier.form))
    return identifier
