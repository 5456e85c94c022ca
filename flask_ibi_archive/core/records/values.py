"""The values of the fields of records: errors, conversion, and one parser for each kind of value.

Each parser has the parameters *field*, the name of the field for messages, and *value*. The parser
returns the value that the database stores. If the value is wrong, the parser raises FieldError. The
functions ``find_...`` read free text, such as the elements of Dublin Core, and return None instead.

The fields of the structs of :mod:`.record`, :mod:`.description` and :mod:`.offer_messages` have a
type such as ``Parsed[str, parse_url]``; :func:`convert` calls their parsers.

Source: ISO 7064 (check digits); https://ror.readme.io/docs/identifier (ROR);
https://support.orcid.org (ORCID); ISO 2108 (ISBN); ISO 3297 (ISSN).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import date, datetime
from difflib import get_close_matches
from functools import cache, lru_cache, partial
from importlib.resources import files
from ipaddress import ip_network
from itertools import chain
from operator import is_not
from typing import TYPE_CHECKING, Any, TypeVar, get_args
from urllib.parse import quote

import msgspec
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from stdnum import isbn, issn
from stdnum.iso7064 import mod_11_2, mod_97_10

from flask_ibi_archive.core.identifiers.foreign import ForeignIdentifier, ForeignKind, parse_foreign
from flask_ibi_archive.core.identifiers.grammar import Form, match_identifier
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol import languages
from flask_ibi_archive.core.protocol.catalogue_items import is_format
from flask_ibi_archive.core.protocol.hosts import check_url
from flask_ibi_archive.errors import IdentifierError, ask_if_meant, one_line
from flask_ibi_archive.errors import translatable as _

Result = TypeVar("Result")


# --- errors --------------------------------------------------------------------------------------


class FieldError(ValueError):
    """A field of a record is wrong.

    :param field: the name of the field, such as ``rep`` or ``files[0].path``. "" if the
        whole record is wrong.
    :param reason: what is wrong and what would be right.
    """

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        self.reason = reason
        with_field = _("{field}: {reason}", field=field, reason=reason)
        super().__init__(with_field if field else reason)


def wrong(field: str, value: object, reason: str) -> FieldError:
    """Create the error for a wrong value of a field. The message is the value and the reason."""
    template = "{value} {reason}"
    return FieldError(field, _(template, value=quoted(value), reason=reason))


def parse_with(field: str, parse: Callable[[str], Result], text: str) -> Result:
    """Return ``parse(text)``; a ValueError of ``parse`` becomes a FieldError of the field."""
    try:
        return parse(text)
    except ValueError as error:
        raise FieldError(field, error.args[0]) from None


def quoted(value: object) -> str:
    """Return a value for a message: the repr in ASCII, cut off after 80 characters."""
    text = ascii(value)
    return text if len(text) <= 80 else text[:77] + "..."


def quoted_name(name: object) -> str:
    """Return the name of a field for a message: printable, at most 80 characters."""
    name = str(name)
    return (name if name.isprintable() else ascii(name)[1:-1])[:80]


def suggest(value: object, choices: Iterable[str]) -> str:
    """Return the end of an error message, which asks if the most similar choice was meant.

    :returns: "" if no choice is similar.
    """
    by_folded = {choice.casefold(): choice for choice in choices}
    [*nearest] = get_close_matches(str(value).casefold(), by_folded, 1)
    return ask_if_meant(by_folded[nearest[0]]) if nearest else ""


# --- conversion ----------------------------------------------------------------------------------


T = TypeVar("T", bound=msgspec.Struct)

if TYPE_CHECKING:
    from typing import Annotated as Parsed
else:

    class _ParsedType(type):
        """The type of the fields whose values a function parses. Any value is an instance."""

        #: Returns True. msgspec calls it for each value, and a function of Python would need time.
        __instancecheck__ = staticmethod(partial(is_not, object()))

        def __or__(cls, other: object) -> type:
            """Return the type itself for ``type | None``; the parser decides about null."""
            return cls

    class Parsed:
        """``Parsed[kind, parse]`` is the type of a field: *parse* returns a value of *kind*."""

        def __class_getitem__(cls, arguments: tuple[Any, Callable[[str, Any], Any]]) -> type:
            kind, parse = arguments
            return _ParsedType("Parsed", (), {"kind": kind, "parse": staticmethod(parse)})


def convert(field: str, value: Any, kind: type[T]) -> T:
    """Parse a JSON object into a struct.

    :param field: the name of the field that contains the value; "" for a whole record.
    :raises FieldError: if a field is wrong, unknown or missing.
    """
    names = kind.__struct_encode_fields__
    for name, member in check_object(field, value, names).items():
        if type(member) in _NOT_IN_JSON:
            raise wrong(join_names(field, name), member, "is not a list")
    try:
        return msgspec.convert(value, kind, dec_hook=_parse_value)
    except msgspec.ValidationError as error:
        raise _explain(field, value, error) from None


#: Types of a host that msgspec would read as lists; the meaning of such a value is not certain.
_NOT_IN_JSON = frozenset({tuple, set, frozenset})


def or_none(parse: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    """Extend a parser so that it returns None for the value null."""
    return lambda field, value: None if value is None else parse(field, value)


def convert_to(kind: type[T]) -> Callable[[str, Any], T]:
    """Return a parser that converts a JSON object to a struct of a class."""
    return partial(convert, kind=kind)


def check_object(field: str, value: Any, names: Iterable[str]) -> dict[str, Any]:
    """Check that a value is a JSON object with no other fields than the allowed names."""
    if not isinstance(value, dict):
        raise wrong(field, value, 'is not an object (write {"...": ...})')
    for name in value:
        if name not in names:
            raise FieldError(
                join_names(field, quoted_name(name)),
                f"this field is unknown; the known fields are {', '.join(names)}"
                f"{suggest(name, names)}",
            )
    return value


def join_names(field: str, name: str) -> str:
    """Return the name of a member of a field, such as ``files[0].path``."""
    return f"{field}.{name}" if field and name and not name.startswith("[") else field + name


def _parse_value(kind: Any, value: Any) -> Any:
    return kind.parse("", value)


def _explain(field: str, value: Any, error: msgspec.ValidationError) -> FieldError:
    """Convert an error of msgspec, such as ``Expected `array`, got `int` - at `$.files```."""
    __, mark, path = str(error).rpartition(" - at `$")
    path = path.rstrip("`").removeprefix(".") if mark else ""
    if isinstance(error.__cause__, FieldError):
        inner = error.__cause__
        return FieldError(join_names(field, join_names(path, inner.field)), inner.reason)
    if missing := _MISSING.fullmatch(str(error)):
        return FieldError(join_names(field, missing[1]), _("the field is missing"))
    return wrong(join_names(field, path), value[path], "is not a list")


_MISSING = re.compile("Object missing required field `(.*)`")


# --- texts ---------------------------------------------------------------------------------------


#: Matches the characters that XML 1.0 does not allow. Escaping does not make them legal.
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
MAX_TEXT = 1_000_000
_SHA256 = re.compile(r"[0-9a-f]{64}")
#: Maximum length of a path or a key in bytes, because a database index contains them.
MAX_INDEXED = 1024


def parse_text(field: str, value: Any) -> str:
    """Check that a value is a text that databases can store. The text must not be empty."""
    if not isinstance(value, str):
        raise wrong(field, value, _("is not a text"))
    if not value:
        raise FieldError(field, "the text is empty; write a text, or omit an optional field")
    if len(value) > MAX_TEXT:
        raise FieldError(field, f"the text is longer than {MAX_TEXT} characters")
    if "\0" in value:
        raise FieldError(field, _("the text contains a NUL character"))
    return value if value.isascii() else check_characters(field, value)


_SURROGATE = re.compile("[\ud800-\udfff]")


def check_characters(field: str, text: str) -> str:
    """Check that a text contains no half of a surrogate pair, which JSON and Python allow."""
    if _SURROGATE.search(text):
        reason = _("the text contains half of a surrogate pair, which is not a character")
        raise FieldError(field, reason)
    return text


def parse_xml_text(field: str, value: Any) -> str:
    """Check that a value is a text that XML 1.0 allows; see :func:`parse_text`."""
    text = parse_text(field, value)
    if NOT_XML.search(text):
        reason = _("the text contains a control character, which XML does not allow")
        raise FieldError(field, reason)
    return text


def clean(text: str) -> str:
    """Return a text in which U+FFFD replaces the characters that XML 1.0 does not allow."""
    return NOT_XML.sub("\ufffd", text)


#: The words of types, languages and columns, and the terms of other vocabularies. Words of types
#: are Portuguese, Spanish and English; those of the DCMI Type Vocabulary; those of the COAR
#: Resource Types 3.1 (labels, and codes c_...); and those of DRIVER (info:eu-repo/semantics/...).
VOCABULARIES: dict[str, dict[str, list[str]]] = msgspec.json.decode(
    files("flask_ibi_archive.core.records").joinpath("vocabularies.json").read_bytes()
)


def fold(text: str) -> str:
    """Return a text in lower case without accents, spaces and punctuation."""
    # one by one, because to sort many accents on one letter takes quadratic time
    decomposed = "".join(unicodedata.normalize("NFKD", letter) for letter in text.casefold())
    return re.sub(r"[\W_]", "", decomposed)


def list_words(table: str) -> dict[str, str]:
    """Return a dictionary from the words of a table of :data:`VOCABULARIES` to their keys."""
    return {word: key for key, words in VOCABULARIES[table].items() for word in words}


def choose_by_word(table: str) -> Callable[[str], str]:
    """Return a function that replaces a word of a table by its key, and keeps other texts."""
    known = {fold(word): key for word, key in list_words(table).items()}
    return lambda text: known.get(fold(text), text)


def parse_line_text(field: str, value: Any) -> str:
    """Check a text as :func:`parse_xml_text` does, and return it on one line."""
    text = one_line(parse_xml_text(field, value))
    if not text:
        raise FieldError(field, "the text has spaces only; write a text, or omit an optional field")
    return text


def parse_flag(field: str, value: Any) -> bool:
    """Check that a value is true or false."""
    if not isinstance(value, bool):
        raise wrong(field, value, "is neither true nor false")
    return value


def parse_choice(field: str, value: Any, choices: tuple[str, ...]) -> str:
    """Check that a value is one of the allowed words."""
    if not isinstance(value, str) or value not in choices:
        listed, meant = ", ".join(choices), suggest(value, choices)
        raise wrong(field, value, _("is not one of {words}{meant}", words=listed, meant=meant))
    return value


def choose(literal: Any) -> Callable[[str, Any], Any]:
    """Return a parser that accepts only the words of a Literal type."""
    return partial(parse_choice, choices=get_args(literal))


def parse_number(field: str, value: Any, least: int = 0) -> int:
    """Check that a value is a whole number from ``least`` to the largest that databases store."""
    if type(value) is not int or not least <= value <= MAX_NUMBER:
        raise wrong(field, value, f"is not a whole number from {least}")
    return value


#: The largest number that all databases can store.
MAX_NUMBER = (1 << 63) - 1


def parse_path(field: str, value: Any) -> str:
    """Parse a relative path without the segments "", "." and "..", and return it in NFC.

    Some systems write the accents of letters as separate characters (NFD). NFC makes such names
    equal to the usual spelling.
    """
    text = parse_text(field, value)
    if not {"", ".", ".."}.isdisjoint(text.split("/")):
        reason = 'is not a path such as "data/table.csv" (no leading /, no . or ..)'
        raise wrong(field, value, reason)
    composed = unicodedata.normalize("NFC", _check_indexed(field, text, "path"))
    return _check_indexed(field, composed, "path")


def parse_key(field: str, value: Any) -> str:
    """Check that a value may be the name of an item at a host, such as ``package:1a68``."""
    return _check_indexed(field, parse_text(field, value), "key")


def _check_indexed(field: str, text: str, kind: str) -> str:
    if len(text.encode()) > MAX_INDEXED:
        raise FieldError(field, f"the {kind} is longer than {MAX_INDEXED} bytes")
    if _CONTROL.search(text):
        raise wrong(field, text, "contains a control character")
    return text


def parse_sha256(field: str, value: Any) -> str:
    """Parse a SHA-256 checksum and return the checksum in lower case."""
    text = parse_text(field, value).lower()
    if not _SHA256.fullmatch(text):
        raise wrong(field, value, "is not a SHA-256 checksum (64 hexadecimal digits)")
    return text


# --- identifiers, languages, addresses -----------------------------------------------------------


_LANGUAGE_TAG = re.compile(r"(?:[a-z]{2,3}|[ix](?=-))(?:-[a-z0-9]{1,8})*", re.IGNORECASE)


def parse_ibi(field: str, value: Any, form: Form | None = None) -> str:
    """Parse an identifier and return the canonical text.

    :param form: the required form; None if all forms are allowed.
    """
    identifier = match_identifier(value) if isinstance(value, str) else None
    if identifier is None:
        identifier = parse_with(field, parse_identifier, parse_text(field, value))
    if form is not None and identifier.form is not form:
        raise FieldError(
            field,
            f"{value} is an identifier of the form {identifier.form.value}; this field must have "
            f"the form {form.value}",
        )
    return identifier.text


def parse_same_as(field: str, value: Any) -> tuple[str, ...]:
    """Parse identifiers of other systems and former addresses of an item; return canonical texts.

    :raises FieldError: if a member is not such an identifier, or if two members are equal.
    """
    members: dict[str, str] = {}
    if not isinstance(value, list):
        raise wrong(field, value, "is not a list")
    for number, member in enumerate(value):
        name = f"{field}[{number}]"
        alias = parse_with(name, parse_foreign, parse_text(name, member))
        if alias.digest in members:
            raise wrong(name, alias.text, "is already in the list")
        members[alias.digest] = alias.text
    return tuple(members.values())


def parse_language(field: str, value: Any) -> str:
    """Check that a value is a language, ``xx`` or ``xx-YY``."""
    return parse_with(field, languages.parse_language, parse_text(field, value))


def parse_language_tag(field: str, value: Any) -> str:
    """Check that a value is a language tag such as ``pt-BR`` (the simple form of BCP 47)."""
    tag = parse_text(field, value)
    if not is_language_tag(tag):
        raise wrong(field, tag, _("is not a language tag such as pt-BR"))
    return tag


_LANGUAGES = choose_by_word("languages")
_TWO_LETTERS = {long: short for short, long in languages.LANGUAGES.items()}


def read_language(text: str) -> str:
    """Convert the name or code of a language to a tag such as ``pt-BR``.

    :param text: such as ``pt_BR``, ``por`` or ``Português``. An unknown text is returned unchanged.
    """
    found = _LANGUAGES(text.strip())
    found = _TWO_LETTERS.get(found.lower(), found)
    primary, dash, region = found.replace("_", "-").partition("-")
    return f"{primary.lower()}-{region.upper()}" if dash and len(region) == 2 else found


def is_language_tag(text: str) -> bool:
    """Return whether a text is a language tag that begins with a code of ISO 639."""
    return _LANGUAGE_TAG.fullmatch(text) is not None


def parse_url(field: str, value: Any) -> str:
    """Check that a value is an absolute http or https URL without a user name or password."""
    text = parse_text(field, value)
    parse_with(field, check_url, text)
    return text


def parse_network(field: str, value: Any) -> str:
    """Parse an IP network and return the network in CIDR form."""
    text = parse_text(field, value)
    with suppress(ValueError):
        return str(ip_network(text))
    try:
        meant = f"; did you mean {ip_network(text, strict=False)}?"
    except ValueError:
        meant = ""
    raise wrong(field, value, f"is not a network such as 150.163.0.0/16{meant}")


def parse_formats(field: str, value: Any) -> Mapping[str, str]:
    """Check that a value is an object of metadata formats. The values are URLs."""
    if not isinstance(value, dict):
        raise wrong(field, value, 'is not an object such as {"oai_dc": "https://..."}')
    for name in value:
        if not is_format(name):
            reason = 'is not a format (letters, digits, "_" and "-", as in oai_dc)'
            raise wrong(field, name, reason)
    return {name: parse_url(join_names(field, name), value[name]) for name in sorted(value)}


# --- people, organisations, journals, books ------------------------------------------------------


_ORCID_DIGITS = r"([0-9]{4})[- ]?([0-9]{4})[- ]?([0-9]{4})[- ]?([0-9]{3}[0-9X])(?![\w-])/?"
#: Matches an ORCID beside a name: a URL, a number after the word ORCID, or a number with hyphens.
ORCID = re.compile(
    r"[\s,;:|/([{<–-]*"
    r"(?:(?:\borcid(?:[ -]?id)?\s*[:=]?\s*)?(?:https?://)?(?:www\.)?orcid\.org/"
    rf"|\borcid(?:[ -]?id)?\s*[:=]?\s*|(?<![\w-])(?=[0-9]{{4}}-)){_ORCID_DIGITS}[\s)\]}}>]*",
    re.IGNORECASE,
)
_BARE_ORCID = re.compile(_ORCID_DIGITS, re.IGNORECASE)
_LATTES = re.compile(
    r"(?:(?:https?://)?(?:(?:www|buscatextual)\.)?lattes\.cnpq\.br/)?([0-9]{16})/?"
)
#: Crockford's Base32 has no i, l, o and u. The last two digits are check digits.
_BASE32 = "0123456789abcdefghjkmnpqrstvwxyz"
_TO_BASE32HEX = str.maketrans(_BASE32, "0123456789abcdefghijklmnopqrstuv")
_ROR = re.compile(rf"(?:(?:https?://)?ror\.org/)?(0[{_BASE32}]{{6}})([0-9]{{2}})/?", re.IGNORECASE)
_FUNDER = re.compile(r"(?:(?:https?://)?(?:dx\.)?doi\.org/|doi:\s*)?(10\.13039/[0-9]+)", re.I)
#: The label, the hyphen, and the two halves of an ISSN; the label and the digits of an ISBN.
ISSN = re.compile(
    r"((?:urn:)?[ep]?-?issn(?:-?l)?[:\s]*)?:?\s*([0-9]{4})(-?)([0-9]{3}[0-9X])", re.IGNORECASE
)
ISBN = re.compile(
    r"((?:urn:)?isbn(?:-?1[03])?[:\s]*)?((?:97[89][- ]?)?[0-9][0-9 -]{7,14}[0-9X])", re.IGNORECASE
)


def _match(
    field: str, value: Any, reason: str, *patterns: re.Pattern[str]
) -> tuple[str, re.Match[str]]:
    """Put a text on one line; return it, and the match of the first pattern that matches.

    :param reason: the reason in the FieldError that is raised if no pattern matches.
    """
    text = parse_line_text(field, value)
    for pattern in patterns:
        if match := pattern.fullmatch(text):
            return text, match
    raise wrong(field, text, reason)


def parse_orcid(field: str, value: Any) -> str:
    """Parse an ORCID or its URL, and return the ORCID with hyphens."""
    reason = _("is not an ORCID such as 0000-0002-1825-0097")
    text, match = _match(field, value, reason, _BARE_ORCID, ORCID)
    orcid = check_orcid(match)
    if orcid is None:
        raise wrong(field, text, _("is not an ORCID: the check digit is wrong"))
    return orcid


def check_orcid(match: re.Match[str]) -> str | None:
    """Return the ORCID that a regular expression matched; None if its check digit is wrong."""
    digits = [group.upper() for group in match.groups()]
    return "-".join(digits) if mod_11_2.is_valid("".join(digits)) else None


def parse_lattes(field: str, value: Any) -> str:
    """Parse the number of a Curriculum Lattes or its URL, and return the number."""
    what = (
        "is not the number of a Curriculum Lattes (16 digits) or its URL, http://lattes.cnpq.br/ "
        "and the number"
    )
    return _match(field, value, what, _LATTES)[1][1]


def parse_ror(field: str, value: Any) -> str:
    """Parse a ROR (Research Organization Registry) with or without a URL, and return the URL."""
    text, match = _match(field, value, "is not a ROR such as https://ror.org/04xbn6x09", _ROR)
    characters, check_digits = match[1].lower(), match[2]
    number = int(characters.translate(_TO_BASE32HEX), 32)
    if mod_97_10.calc_check_digits(str(number)) != check_digits:
        raise wrong(field, text, "is not a ROR: the check digits are wrong")
    return f"https://ror.org/{characters}{check_digits}"


def parse_funder_id(field: str, value: Any) -> str:
    """Parse a ROR, or a DOI of the Crossref Funder Registry, and return it as a URL."""
    text = parse_line_text(field, value)
    if match := _FUNDER.fullmatch(text):
        return f"https://doi.org/{match[1]}"
    if _ROR.fullmatch(text):
        return parse_ror(field, text)
    reason = (
        "is neither a ROR such as https://ror.org/03swz6y49 nor a DOI of the Crossref Funder "
        "Registry such as https://doi.org/10.13039/501100001807"
    )
    raise wrong(field, text, reason)


def find_issn(text: str) -> str | None:
    """Return the ISSN in a text such as ``ISSN 1234-567X`` or ``1234-567X``; or None."""
    match = ISSN.fullmatch(text.strip())
    return issn.format(match[2] + match[4]) if match and (match[1] or match[3]) else None


def find_isbn(text: str) -> str | None:
    """Return the ISBN in a text such as ``ISBN 978-85-17-00001-1``, hyphens included; or None."""
    match = ISBN.fullmatch(text.strip())
    return _format_isbn(match) if match and match[1] else None


def _format_isbn(match: re.Match[str]) -> str:
    return match[2].replace(" ", "-").upper()


def parse_issn(field: str, value: Any) -> str:
    """Parse an ISSN, and return it with a hyphen."""
    text, match = _match(field, value, _("is not an ISSN such as 0100-879X"), ISSN)
    number = issn.format(match[2] + match[4])
    if not issn.is_valid(number):
        raise wrong(field, text, _("is not an ISSN: the check digit is wrong"))
    return number


def parse_isbn(field: str, value: Any) -> str:
    """Parse an ISBN, and return it with the hyphens that the text contains."""
    text, match = _match(field, value, _("is not an ISBN such as 978-0-306-40615-7"), ISBN)
    number = _format_isbn(match)
    if not isbn.is_valid(number):
        raise wrong(field, text, _("is not an ISBN: a digit or the check digit is wrong"))
    return number


def find_foreign(text: str) -> ForeignIdentifier | None:
    """Parse a text as an identifier of another system; None if it is not such an identifier."""
    with suppress(IdentifierError):
        return parse_foreign(text)
    return None


def find_doi(text: str) -> str | None:
    """Return the DOI in ``doi:10.1000/182`` or ``https://doi.org/10.1000/182``; or None."""
    foreign = find_foreign(re.sub(r"\Ainfo:doi/", "doi:", text.strip(), flags=re.IGNORECASE))
    if foreign is None or foreign.kind is not ForeignKind.DOI:
        return None
    return foreign.text.removeprefix("doi:")


def format_doi(doi: str) -> str:
    """Return the URL of a DOI. %XX replaces the characters that URLs do not allow."""
    return "https://doi.org/" + quote(doi, safe="/:;()@!$&'*+,=~")


# --- dates ---------------------------------------------------------------------------------------


#: The hour is checked, because ``fromisoformat`` of newer Python versions accepts 24:00:00.
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}Z")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def parse_timestamp(field: str, value: Any) -> datetime:
    """Parse a time such as ``2009-07-21T13:23:45Z``."""
    if isinstance(value, str) and _TIMESTAMP.fullmatch(value):
        with suppress(ValueError):
            return datetime.fromisoformat(f"{value[:-1]}+00:00")
    if isinstance(value, datetime) and value.tzinfo is None:
        raise wrong(field, value, "has no time zone; add tzinfo=timezone.utc")
    raise wrong(field, value, "is not a time such as 2009-07-21T13:23:45Z (UTC)")


def parse_day(field: str, value: Any) -> date:
    """Parse a day such as ``2027-03-01``."""
    if isinstance(value, str) and _DAY.fullmatch(value):
        with suppress(ValueError):
            return date.fromisoformat(value)
    raise wrong(field, value, _("is not a day such as 2027-03-01"))


class IssuedDate(msgspec.Struct, frozen=True):
    """The date of a work, as far as it is known.

    :param text: the date in the words of the source.
    :param year: the year from 1 to 9999, or None.
    :param is_approximate: True if the statement says that the year is approximate ("c. 1998").
    """

    text: str
    year: int | None = None
    month: int | None = None
    day: int | None = None
    is_approximate: bool = False

    @property
    def parts(self) -> tuple[int, ...]:
        """The known parts: ``(year, month, day)``, ``(year, month)``, ``(year,)`` or ``()``."""
        return tuple(part for part in (self.year, self.month, self.day) if part is not None)

    @property
    def iso(self) -> str | None:
        """The date in ISO 8601, such as ``2009-07-21``, ``2009-07`` or ``2009``; or None."""
        widths = (4, 2, 2)
        known = [f"{part:0{width}}" for part, width in zip(self.parts, widths, strict=False)]
        return "-".join(known) or None


_ISSUED = re.compile(r"(?:c\. )?[0-9]{4}|[0-9]{4}-[0-9]{2}(?:-[0-9]{2})?")
#: A date that Excel stores as the number of days since 1900, and shows so in the wrong format.
_SERIAL = re.compile("[1-5][0-9]{4}")


def parse_issued(field: str, value: Any) -> IssuedDate:
    """Parse a date that somebody states about a work: a year, a month, a day or ``c. 2009``.

    :func:`parse_date` reads dates of metadata that others have made, in any spelling.
    """
    text = value if isinstance(value, str) else ""
    if _ISSUED.fullmatch(text) and (issued := find_date(text)):
        return issued
    if _SERIAL.fullmatch(text):
        reason = _("is a number of days; in Excel, format the column as a date: 2009-07-21")
        raise wrong(field, value, reason)
    reason = _('is not a date such as "2009", "2009-07", "2009-07-21" or "c. 2009"')
    raise wrong(field, value, reason)


_TIME = r"(?:[T ][0-9]{1,2}:[0-9:.]+ ?(?:Z|UTC|[+-][0-9:]+)?)?"
_YEAR_FIRST = re.compile(
    rf"([0-9]{{4}})(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}}))?{_TIME})?|([0-9]{{4}})([0-9]{{2}})([0-9]{{2}})"
)
_YEAR_LAST = re.compile(rf"(?:([0-9]{{1,2}})[/.-])?([0-9]{{1,2}})[/.-]([0-9]{{4}}){_TIME}")
#: A year, perhaps that of a copyright or an approximate one, or as a program writes a number.
_YEAR_ALONE = re.compile(r"\[?(?:(c|ca|circa)(?:\. ?| )|[c©])?([0-9]{4})(?:[.,]0)?\]?")
_YEAR = re.compile(r"(?<![0-9])(1[0-9]{3}|20[0-9]{2})(?![0-9])")
_APPROXIMATE = re.compile(r"(?<!\w)(?:c|ca|circa|cerca de|about|approx)\b|[?~]", re.IGNORECASE)
#: The words between a day, a month and a year.
_BETWEEN = frozenset({"de", "del", "do", "of", "o", "st", "nd", "rd", "th"})


def find_readings(text: str) -> dict[str, IssuedDate]:
    """Return the possible meanings of a date such as ``03/04/2009``, by order of day and month.

    The keys are "dmy" and "mdy"; impossible dates are left out. The result is {} for a date that is
    not written in this way.
    """
    found = _YEAR_LAST.fullmatch(text.strip())
    if found is None or found[1] is None:
        return {}
    orders = {"dmy": (found[3], found[2], found[1]), "mdy": (found[3], found[1], found[2])}
    return {order: date for order, parts in orders.items() if (date := _make_date(*parts))}


@lru_cache(maxsize=1024)  # imports have few dates, each many times
def find_date(text: str, order: str = "") -> IssuedDate | None:
    """Parse a whole text as a date; return the date as records contain it.

    :param text: a date such as ``2009-07-21T13:23:45Z``, ``21/07/2009``, ``07/2009``, ``2009.0``,
        ``[ca. 1998]``, ``12 de março de 2015``, ``July 21, 2009`` or ``jul/09``.
    :param order: the order of day and month in dates such as ``03/04/2009``: "dmy" or "mdy"; "" if
        it is unknown.
    :returns: None if the text is not a date, or if it may mean two dates.
    """
    if found := _YEAR_FIRST.fullmatch(text):
        return _make_date(*(part for part in found.groups() if part))
    if readings := find_readings(text):
        dates = {*readings.values()}
        return readings.get(order) or (dates.pop() if len(dates) == 1 else None)
    if (found := _YEAR_LAST.fullmatch(text)) and found[1] is None:
        return _make_date(found[3], found[2])
    if found := _YEAR_ALONE.fullmatch(text):
        date = _make_date(found[2])
        if date and found[1]:
            return msgspec.structs.replace(date, text=f"c. {date.text}", is_approximate=True)
        return date
    words = [fold(word) for word in re.findall(r"[0-9]+|[^\W\d_]+", text)]
    months = _list_months()
    match [months.get(word, word) for word in words if word not in _BETWEEN]:
        case [int(month), str(year)] if re.fullmatch(r"\w+\.?[/-][0-9]{2}", text):  # Excel's
            return _make_date(f"{'20' if year < '30' else '19'}{year}", month)
        case [int(month), str(year)]:
            return _make_date(year, month)
        case [str(day), int(month), str(year)] | [int(month), str(day), str(year)]:
            return _make_date(year, month, day)
    return None


@cache
def _list_months() -> dict[str, int]:
    """Return the number of each month, by the folded names in the languages of the pages."""
    from babel.dates import get_month_names  # takes long to import

    names = (
        get_month_names(width, locale=language).items()
        for language in ("pt", "es", "en")
        for width in ("wide", "abbreviated")
    )
    return {fold(name): number for number, name in chain.from_iterable(names)}


def _make_date(year: str, *more: str | int) -> IssuedDate | None:
    """Build a date from a year, perhaps a month, and perhaps a day; None if it does not exist."""
    parts: list[Any] = [*map(int, (year, *more))] if re.fullmatch("[0-9]{4}", year) else [0]
    with suppress(ValueError):
        text = date(*(*parts, 1, 1)[:3]).isoformat()[: (4, 7, 10)[len(more)]]
        return IssuedDate(text, *parts)
    return None


@lru_cache(maxsize=1024)
def parse_date(text: str) -> IssuedDate:
    """Parse a date of metadata in any spelling; see :func:`find_date`.

    If the text contains more than a date, or is ambiguous such as ``03/04/2009``, only the year is
    set. If it contains two different years, such as ``1998-2001``, the year is None.
    """
    text = one_line(text)
    if found := find_date(text):
        return msgspec.structs.replace(found, text=text)
    years = set(_YEAR.findall(text))
    if len(years) != 1:
        return IssuedDate(text)
    return IssuedDate(text, int(years.pop()), is_approximate=bool(_APPROXIMATE.search(text)))


def find_issued(texts: Iterable[str]) -> IssuedDate | None:
    """Choose the date of publication among the values of dc:date; None if there is no value.

    Repositories such as DSpace list the moments of submission before the date of publication. A
    value with a time of day is therefore only used if there is no other value. The end of an
    embargo is never used.
    """
    dates = [parse_date(text) for text in texts if text.strip() and "/embargoEnd/" not in text]
    stated = [date for date in dates if "T" not in date.text or date.year is None]
    return next(iter(stated or dates), None)


# --- addresses and licences ----------------------------------------------------------------------


_IN_URL = r"(?:[A-Za-z0-9._~:/?@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"
#: Matches the URLs of RFC 3986; another text would not be valid in XML as xs:anyURI.
_URL = re.compile(rf"https?://[A-Za-z0-9.-]+(?::[0-9]+)?(?:[/?]{_IN_URL})?(?:#{_IN_URL})?")


def is_url(text: str) -> bool:
    """Return whether a text is an http or https URL."""
    return _URL.fullmatch(text.strip()) is not None


def parse_http_url(field: str, value: Any) -> str:
    """Check that a value is an http or https URL that follows RFC 3986."""
    text = parse_line_text(field, value)
    if not is_url(text):
        raise wrong(field, text, _("is not a URL such as https://example.org/page"))
    return text


#: Addresses in dc:rights that say who has access, and are no licences.
_ACCESS = re.compile(r"access[-_]?right|eu-repo", re.IGNORECASE)
#: The URL, the SPDX identifier or the short name of a licence of Creative Commons: the waiver, the
#: mark or the conditions; the version; and the country. A URL may be that of a translation.
_COMMONS = re.compile(
    r"(?:https?://(?:www\.)?creativecommons\.org/(?:licenses|publicdomain)/"
    r"|(?:creative\s+commons\s*)?\(?cc[\s-]*)"
    r"(?:(0|zero)|(mark|pdm)|((?:by|nc|nd|sa)(?:[\s-](?:nc|nd|sa))*))"
    r"(?:[\s/-]*v?([1-4]\.[0-9]))?\)?(?:[/-]([a-z]{2,3}))?(?:/(?:deed|legalcode)[^/?]*)?/?"
    r"(?:\s+(?:universal|international|internacional|brazil|brasil))?",
    re.IGNORECASE,
)
_PUBLIC_DOMAIN = {"CC0-1.0": "zero", "CC-PDM-1.0": "mark"}
_SPDX = re.compile(r"[A-Za-z0-9.-]+")
#: The URLs of lists of licences. The last part of a URL is often an SPDX identifier.
_LISTED = re.compile(
    r"https?://(?:www\.)?(?:spdx\.org/licenses|opensource\.org/licen[sc]es?)/"
    r"([A-Za-z0-9.-]+?)(?:\.html|\.json)?/?"
)


def _find_commons(text: str) -> str | None:
    """Return a Creative Commons licence as SPDX would write it; None for any other text.

    The list of SPDX lacks most licences for a single country, such as ``CC-BY-3.0-BR``.
    """
    if (found := _COMMONS.fullmatch(text)) is None:
        return None
    zero, mark, conditions, version, country = found.groups()
    if zero or mark:
        return "CC0-1.0" if zero else "CC-PDM-1.0"
    parts = ("CC", re.sub(r"\s+", "-", conditions), version, country)
    return "-".join(filter(None, parts)).upper() if version else None


def _format_url(spdx: str) -> str:
    if spdx in _PUBLIC_DOMAIN:
        return f"https://creativecommons.org/publicdomain/{_PUBLIC_DOMAIN[spdx]}/1.0/"
    found = re.fullmatch(r"CC-([A-Z-]+)-([0-9.]+)(?:-([A-Z]+))?", spdx)
    if found is None:
        return f"https://spdx.org/licenses/{spdx}"
    return f"https://creativecommons.org/licenses/{'/'.join(filter(None, found.groups())).lower()}/"


def find_licence(text: str) -> str | None:
    """Return the URL of the licence that a value of dc:rights names; None if it names none.

    The value is a URL, or the short name of a Creative Commons licence with its version, such as
    ``CC BY 4.0``.
    """
    text = one_line(text)
    if is_url(text):
        return None if _ACCESS.search(text) else text
    spdx = _find_commons(text)
    return spdx and _format_url(spdx)


def name_licence(url: str) -> str:
    """Return the short name of a Creative Commons licence, such as ``CC BY 4.0``.

    :returns: the URL itself if the licence is another one.
    """
    found = re.fullmatch(r"(CC0|CC-(?!PDM)[A-Z-]+)-([0-9.]+)", _find_commons(url) or "")
    return f"{found[1].replace('-', ' ', 1)} {found[2]}" if found else url


def parse_licence(field: str, value: Any) -> str:
    """Parse a licence, and return its URL. All names of a licence of SPDX give the same URL.

    :param value: an SPDX identifier such as ``CC-BY-4.0``, a short name such as ``CC BY 4.0``, or
        an http or https URL.
    """
    text = parse_line_text(field, value)
    if spdx := _find_commons(text) or find_spdx(text) or _find_listed(text):
        return _format_url(spdx)
    if url := find_licence(text):
        return url
    reason = _(
        "is neither an identifier of the SPDX License List, such as CC-BY-4.0 or MIT, nor the "
        "URL of a licence (write who has access as access_right)"
    )
    raise wrong(field, text, reason)


def find_spdx(url: str) -> str | None:
    """Return the SPDX identifier of the licence that has a URL; None if the list has none."""
    if commons := _find_commons(url):
        return commons if commons in _PUBLIC_DOMAIN else _find_listed(commons)
    found = _LISTED.fullmatch(url)
    return _find_listed(found[1]) if found else None


def _find_listed(text: str) -> str | None:
    """Return an SPDX identifier in the spelling of the list; None if the list has none."""
    if _SPDX.fullmatch(text) and not text.lower().startswith("licenseref"):
        with suppress(InvalidLicenseExpression):
            return canonicalize_license_expression(text)
    return None
