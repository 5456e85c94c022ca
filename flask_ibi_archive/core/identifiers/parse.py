"""Parsing of identifiers. An error explains what is wrong and may suggest a right identifier."""

from __future__ import annotations

from flask_ibi_archive.core.identifiers.diagnosis import explain_refusal
from flask_ibi_archive.core.identifiers.identifier import Form, Identifier, match_identifier
from flask_ibi_archive.core.identifiers.suggest import suggest_identifier
from flask_ibi_archive.errors import IdentifierError
from flask_ibi_archive.reasons import Reason


def parse_identifier(text: str) -> Identifier:
    """Parse an identifier of any form.

    :param text: a repository name or an IBIp in upper or lower case, or a legacy identifier.
    :raises IdentifierError: if the text is not an identifier. The error contains the reason. The
        error also contains a suggestion if
        :func:`~flask_ibi_archive.core.identifiers.suggest_identifier` returns a suggestion.

    Source: [G] Tables 6.1 and 7.1 with their semantic rules.
    """
    identifier = match_identifier(text)
    if identifier is None:
        raise IdentifierError(text, explain_refusal(text), suggest_identifier(text))
    return identifier


def parse_repository_name(text: str) -> Identifier:
    """Parse a repository name.

    :raises IdentifierError: if the text is not an identifier, or an identifier of another form.

    Source: [G] Table 6.1.
    """
    return _parse_form(text, Form.REP)


def parse_ibip(text: str) -> Identifier:
    """Parse an IBIp.

    :raises IdentifierError: if the text is not an identifier, or an identifier of another form.

    Source: [G] Table 7.1.
    """
    return _parse_form(text, Form.IBIP)


def _parse_form(text: str, form: Form) -> Identifier:
    identifier = parse_identifier(text)
    if identifier.form is not form:
        raise IdentifierError(text, Reason(f"{form}_required", form=identifier.form))
    return identifier
