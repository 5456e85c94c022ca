"""The exceptions of this package, and the reasons why a text is refused.

Exceptions that only one subpackage raises and catches are defined there.

::

    IBIError
      ConfigError                 a setting is missing or wrong
      RefusedText                 a text does not follow its grammar (also a ValueError)
      IdentifierError             a text is not an identifier (also a ValueError)
      MintingError                no identifier can be assigned now
      PeerProtocolError           a received message is wrong
        MalformedPersistentUrl    a text is not a persistent URL
      TransportError              another server cannot be reached, or its answer is incomplete
      RegistrationError           the resolver did not include or exclude the Archive
        ResolverError             the resolver refused a request, or did not answer it
      MailError                   an e-mail cannot be sent
      OfferError                  an offer of another Archive cannot be accepted, or not now
      StorageError                the storage cannot do what was requested
        NotReady                  the database is unreachable, empty or of another revision
        UnknownItem               no item of the Archive has the identifier
        RuleBroken                a rule of the storage model would be broken
        RecordError               a record of an import file is wrong
        RowError                  a row of a host's own model cannot be stored as an item

Each message is one line. It says what is wrong, where the error is, and what would be right. The
values in the message are also attributes of the exception.

An error about a text that a person typed contains a :class:`Reason`: a code with an English message
template. The pages show the reason in the language of the reader.
"""

from __future__ import annotations

from collections.abc import Callable


def one_line(text: object) -> str:
    """Return the text of an object on one line: a space replaces each sequence of white space."""
    return " ".join(str(text).split())


class Reason:
    """A reason why a text is refused: a code, and the values for the message template.

    :param code: a key of :data:`ENGLISH`.
    :param facts: the values for the names in the template. A value may be another reason. Such a
        reason explains what is wrong with one part of the text.
    """

    __slots__ = ("code", "facts")

    def __init__(self, code: str, /, **facts: object) -> None:
        self.code: str = code
        self.facts: dict[str, object] = facts

    def __str__(self) -> str:
        return self.message

    def __repr__(self) -> str:
        return f"Reason({self.code!r}, **{self.facts!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reason):
            return NotImplemented
        return (self.code, self.facts) == (other.code, other.facts)

    def __hash__(self) -> int:
        return hash(self.code)

    @property
    def message(self) -> Message:
        """The message for the reason."""
        facts = {
            name: fact.message if isinstance(fact, Reason) else fact
            for name, fact in self.facts.items()
        }
        return translatable(ENGLISH[self.code], **facts)


class Message(str):
    """An English text that can be translated: it remembers its template and the values."""

    __slots__ = ("template", "values")
    template: str
    values: dict[str, object]

    def render(self, translate: Callable[[str], str]) -> str:
        """Return the text in another language. Values that are Messages are translated, too.

        :param translate: a function that translates an English template.
        """
        text = translate(self.template)
        if not self.values:
            return text
        shown = {
            name: value.render(translate) if isinstance(value, Message) else value
            for name, value in self.values.items()
        }
        return text.format(**shown)


def translatable(text: str, /, **values: object) -> Message:
    """Return a text that can be translated. Translation tools look for calls of this function.

    :param values: the values for the names in the template, if there are any.
    """
    message = Message(text.format(**values) if values else text)
    message.template, message.values = text, values
    return message


_ = translatable


def ask_if_meant(suggestion: str | None) -> str:
    """Return the end of an error message that suggests what the user probably meant.

    :param suggestion: the suggestion. None: there is none, and the result is "".
    """
    return _("; did you mean {suggestion}?", suggestion=suggestion) if suggestion else ""


#: The English templates. The keys are the codes. ``!r`` and ``!a`` put a value in quotes.
ENGLISH: dict[str, str] = {
    # --- identifiers
    "identifier_empty": _("the text is empty"),
    "identifier_too_long": _("the text has {length} characters; at most {limit} are allowed"),
    "character_not_allowed": _(
        "{character!r} at position {position} is not allowed in an identifier"
    ),
    "character_not_ascii": _(
        "{character!r} at position {position} is not an ASCII character; an identifier has ASCII "
        "characters only"
    ),
    "slash_missing": _("the text has no '/' between a prefix and a suffix"),
    "number_of_parts": _(
        "the text has {count} parts separated by '/'; a repository name has four "
        "(subdomain/word/year/month.day.hour.minute) and an IBIp has two words of letters and "
        "digits"
    ),
    # --- IBIps
    "first_part_empty": _("the first part is empty"),
    "second_part_empty": _("the second part is empty"),
    "first_part_character": _(
        "the first part has {character!r}; an IBIp has only the digits 2 to 9 and the letters A to "
        "U except I and O, with W and X as separators"
    ),
    "second_part_character": _(
        "the second part has {character!r}; an IBIp has only the digits 2 to 9 and the letters A "
        "to U except I and O, with W and X as separators"
    ),
    "separator_missing": _(
        "the first part has no 'W' or 'X'; exactly one 'W' or 'X' must separate "
        "the address from the port"
    ),
    "separator_repeated": _(
        "the first part has 'W' or 'X' {count} times; exactly one 'W' or 'X' must separate "
        "the address from the port"
    ),
    "address_code_missing": _("the first part has no code for an address in front of 'W' or 'X'"),
    "x_in_second_part": _(
        "the second part has 'X'; only 'W' may separate the seconds from the fraction"
    ),
    "seconds_code_missing": _("the second part has no code for the seconds in front of 'W'"),
    "fraction_repeated": _(
        "the second part has more than one 'W'; at most one 'W' is allowed, before the fraction"
    ),
    "fraction_code_missing": _("the second part has no code of a fraction after 'W'"),
    # --- repository names
    "word_of_subdomain": _("word {number} of the subdomain, {word!r}, {problem}"),
    "word_after_subdomain": _("the word after the subdomain, {word!r}, {problem}"),
    "word_empty": _("is empty"),
    "word_character": _("has {character!r}; only letters, digits and hyphens are allowed"),
    "word_hyphen": _(
        "begins or ends with a hyphen; a word must begin and end with a letter or digit"
    ),
    "last_word": _("is the last word of the domain name and must begin with a letter"),
    "port_missing": _("the second part ends with {sign!r}; the digits of a port must follow"),
    "port_not_digits": _("the port, {port!r}, must have digits only"),
    "year": _("the year, {value!r}, must be a number from 0001 to 9999 with four digits"),
    "month": _("the month, {value!r}, must be a number from 01 to 12 with two digits"),
    "day": _("the day, {value!r}, must be a number from 01 to 31 with two digits"),
    "hour": _("the hour, {value!r}, must be a number from 00 to 23 with two digits"),
    "minute": _("the minute, {value!r}, must be a number from 00 to 59 with two digits"),
    "second": _("the second, {value!r}, must be a number from 00 to 59 with two digits"),
    "day_missing": _(
        "the date is incomplete: the day is missing; the form is month.day.hour.minute"
    ),
    "hour_missing": _(
        "the date is incomplete: the hour is missing; the form is month.day.hour.minute"
    ),
    "minute_missing": _(
        "the date is incomplete: the minute is missing; the form is month.day.hour.minute"
    ),
    "no_such_day": _("the day, {day!r}, does not exist in month {month} of {year}"),
    "date_too_long": _(
        "the date has too many parts; nothing may follow the fraction of the second"
    ),
    "fraction_not_digits": _("the fraction of the second, {fraction!r}, must have digits only"),
    # --- decoding of identifiers in the right form
    "port_range": _("the port, {port}, is not a number from 1 to 65535"),
    "no_address_and_port": _("the first part does not contain an address and a port: {problem}"),
    "no_date": _("the second part does not contain a date: {problem}"),
    "address_code_too_long": _("{code!r} is too long for the code of an {version} address"),
    "not_an_address": _("{code!r} is the code of {text!r}, which is not an {version} address"),
    "not_a_port": _("{code!r} is not the code of a port from 1 to 65535"),
    "prefix_not_canonical": _("{ip} with port {port} is written {right!r}, not {prefix!r}"),
    "suffix_not_canonical": _("the date is written {right!r}, not {suffix!r}"),
    "year_range": _("the date {second} (in POSIX seconds) is not in the years 0001 to 9999"),
    "endless_fraction": _(
        "the fraction of the second cannot be written with {limit} decimal digits; the fraction "
        "must be a number of tenths, hundredths and so on"
    ),
    # --- persistent URLs
    "not_http": _("a persistent URL must begin with http:// or https://, for example {example}"),
    "url_too_long": _("the URL is too long; at most {limit} characters may follow the host name"),
    "path_too_long": _(
        "the path after the IBI is too long; at most {limit} characters can be sent to an Archive, "
        "and each of & = + ? counts as three"
    ),
    "identifier_missing": _("there is no IBI after the host name; a correct URL is {example}"),
    "not_an_identifier": _("{text!a} is not an IBI: {problem}"),
    "after_modifier": _(
        '{text!a} may not follow the IBI and its modifier; a modifier consists of "!", "+", '
        '"+(pt-BR)", ":" and ":(oai_dc)", and a path begins with "/"'
    ),
    "wrong_order": _(
        "{step} may not follow {previous} here; the order is last edition and translation (in "
        "either order, each at most once), then metadata, then translation"
    ),
    "parameter_repeated": _("{name} appears more than once; it must appear once"),
    "parameter_value": _("{name} is {value!a}; the only allowed value is {allowed}"),
    "in_parameter": _("{name}: {problem}"),
    "unknown_verb": _(
        "{text!a} is not a verb; the verbs are GetTranslation, GetTranslation(xx-YY), "
        "GetLastEdition, GetMetadata, GetMetadata(format) and GetFileList"
    ),
    "last_edition_parameter": _("a last edition has no parameter; remove {parameter!a}"),
    "not_a_format": _(
        '{text!a} is not a format; a format is one word of letters, digits, "_" and "-", such as '
        "oai_dc"
    ),
    "language_case": _(
        "{text!a} is not a language; upper and lower case are different: write {right}"
    ),
    "unknown_country": _(
        "{text!a} is not a language: a country code of ISO 3166-1 must follow the hyphen, "
        "as in pt-BR"
    ),
    "unknown_language": _(
        "{text!a} is not a language; write a language code of ISO 639-1, such as pt, or a language "
        "code with a country code of ISO 3166-1, such as pt-BR"
    ),
}


# --- exceptions -----------------------------------------------------------------------------------


class IBIError(Exception):
    """The base class of all errors that flask_ibi_archive raises."""


class ConfigError(IBIError):
    """A setting is missing or wrong.

    :param key: the configuration key.
    :param value: the value of the setting; None if the setting is not set. The message shows this
        value. Therefore the value must not be a secret.
    :param expected: a description of the allowed values.
    """

    def __init__(self, key: str, value: object, expected: str) -> None:
        self.key = key
        self.value = value
        self.expected = expected
        found = "is not set" if value is None else f"is {value!r}"
        super().__init__(f"{key} {found}; it should be {expected}")


class RefusedText(IBIError, ValueError):
    """A text does not follow its grammar.

    :param code: the code of the reason, a key of :data:`ENGLISH`.
    :param facts: the values that the message for this code contains.
    """

    def __init__(self, code: str, /, **facts: object) -> None:
        self.reason: Reason = Reason(code, **facts)
        super().__init__(self.reason.message)


class IdentifierError(IBIError, ValueError):
    """A text is not an identifier.

    :param text: the text.
    :param reason: what is wrong with the text; a :class:`Reason` if a page shows it.
    :param suggestion: the identifier that the user probably meant; None if this is not clear.
    :param wanted: what the text should be, such as "an IBI".
    """

    def __init__(
        self,
        text: str,
        reason: Reason | str,
        suggestion: str | None = None,
        wanted: str = _("an IBI"),
    ) -> None:
        self.text = text
        self.reason = reason
        self.suggestion = suggestion
        problem = reason.message if isinstance(reason, Reason) else reason
        values = {"text": text[:300], "wanted": wanted, "problem": problem}
        meant = ask_if_meant(suggestion)
        super().__init__(_("{text!r} is not {wanted}: {problem}{meant}", meant=meant, **values))

    @property
    def rule(self) -> str:
        """The reason in English: what is wrong, and what would be right."""
        return str(self.reason)


class MintingError(IBIError):
    """No identifier can be assigned now. The next attempt may use the date of this attempt."""


class PeerProtocolError(IBIError):
    """A message that this program received does not follow the protocol.

    :param text: what is wrong with the message, in one line.
    :param position: the number of characters before the error; None if the position is unknown.
    """

    def __init__(self, text: str, position: int | None = None) -> None:
        self.text = text
        self.position = position
        super().__init__(text if position is None else f"{text} (at position {position})")


class MalformedPersistentUrl(PeerProtocolError):
    """A text is not a persistent URL.

    :param url: the text.
    :param reason: what is wrong with the text and what would be right.
    :param suggestion: the identifier that the user probably meant; None if this is not clear.
    """

    def __init__(self, url: str, reason: Reason, suggestion: str | None = None) -> None:
        self.url = url
        self.reason = reason
        self.suggestion = suggestion
        super().__init__(
            f"{url[:300]!a} is not a persistent URL: {reason}{ask_if_meant(suggestion)}"
        )

    @property
    def rule(self) -> str:
        """The reason in English: what is wrong, and what would be right."""
        return str(self.reason)


class TransportError(IBIError):
    """Another server cannot be reached, or its answer is incomplete.

    :param url: the URL that was requested, without its query.
    :param kind: the kind of the error: ``name``, ``internal``, ``unreachable``, ``timeout``,
        ``tls``, ``cut off``, ``no http``, ``encoding`` or ``url``.
    :param reason: what is wrong. In the message, this text follows the URL.
    :param passing: whether the error is temporary.
    """

    def __init__(self, url: str, kind: str, reason: str, passing: bool) -> None:
        self.url = url
        self.kind = kind
        self.reason = reason
        self.passing = passing
        super().__init__(f"{url} {reason}")


class MailError(IBIError):
    """An e-mail cannot be handed to the mail server.

    :param server: the mail server.
    :param reason: the answer of the server, or why the server cannot be reached. The text contains
        no passwords.
    """

    def __init__(self, server: str, reason: str) -> None:
        self.server = server
        self.reason = reason
        super().__init__(f"the mail server {server} {reason}")


class OfferError(IBIError):
    """An offer of another Archive cannot be accepted, at least not now.

    :param source: the address of the offer without the secret, or the folder that contains the
        offer.
    :param reason: what is wrong. In the message, this text follows the source.
    """

    def __init__(self, source: str, reason: str) -> None:
        self.source = source
        self.reason = reason
        super().__init__(f"{source} {reason}")


class RegistrationError(IBIError):
    """The resolver did not include the Archive, or did not exclude it."""


class ResolverError(RegistrationError):
    """The resolver refused a request, cannot be reached, or its answer is wrong.

    :param url: the URL of the resolver.
    :param reason: what the resolver did. In the message, this text follows the URL.
    :param advice: what the administrator can do.
    :param is_refusal: whether the resolver refused the request: the Archive is not registered, or
        has another key.
    """

    def __init__(self, url: str, reason: str, advice: str, *, is_refusal: bool = False) -> None:
        self.url = url
        self.reason = reason
        self.advice = advice
        self.is_refusal = is_refusal
        super().__init__(f"the resolver {url} {reason}; {advice}")


class StorageError(IBIError):
    """The storage cannot do what was requested."""


class NotReady(StorageError):
    """The database is unreachable, or does not have the tables that this version needs.

    :param reason: what is wrong.
    :param advice: what the administrator can do.
    :param detail: the message of the database. Only the log and the administrator see this text.
    """

    def __init__(self, reason: str, advice: str, detail: str = "") -> None:
        self.reason = reason
        self.advice = advice
        self.detail = detail
        super().__init__(f"{reason}{f' ({detail})' if detail else ''}; {advice}")

    @property
    def summary(self) -> str:
        """The message without the detail."""
        return f"{self.reason}; {self.advice}"


class UnknownItem(StorageError):
    """No item of this Archive has the identifier.

    :param ibi: the identifier.
    """

    def __init__(self, ibi: str) -> None:
        self.ibi = ibi
        super().__init__(f"no item of this Archive has the identifier {ibi}")


class RuleBroken(StorageError):
    """An operation would break one of the eight rules of the storage model.

    :param rule: the number of the rule, 1 to 8. The message does not show this number.
    :param ibi: the identifier of the item that would break the rule; None if unknown.
    :param reason: what is wrong and what would be right.
    :param field: the field of the item that would break the rule; None if the number of the rule
        determines the field.
    """

    def __init__(self, rule: int, ibi: str | None, reason: str, field: str | None = None) -> None:
        self.rule = rule
        self.ibi = ibi
        self.reason = reason
        self.field = field
        super().__init__(f"{ibi}: {reason}" if ibi else reason)


class RecordError(StorageError):
    """A record of an import file is wrong. No line of the file was imported.

    :param source: the name of the file.
    :param line: the number of the line. The first line is 1.
    :param field: the wrong field; None if the whole line is wrong.
    :param reason: what is wrong and what would be right.
    :param place: where the record is, such as ``row 7``, in a file in which records are not lines.
        None: the message names the line.
    """

    def __init__(
        self, source: str, line: int, field: str | None, reason: str, place: str | None = None
    ) -> None:
        self.source = source
        self.line = line
        self.field = field
        self.reason = reason
        self.place: str | Message = place or _("line {number}", number=line)
        values = {"source": source, "place": self.place, "field": field, "reason": reason}
        template = (
            "{source}, {place}, {field}: {reason}" if field else "{source}, {place}: {reason}"
        )
        super().__init__(translatable(template, **values))

    def to_json(self) -> dict[str, str | None]:
        """Return a JSON object with the place and the reason of the error."""
        return {name: getattr(self, name) for name in ("source", "place", "field", "reason")}


class RowError(StorageError):
    """A row of a host's own model cannot be stored as an item.

    :param row: the class and the primary key of the row, such as ``Thesis 5``.
    :param field: the wrong field of the record; None if the whole row is wrong.
    :param reason: what is wrong and what would be right.
    """

    def __init__(self, row: str, field: str | None, reason: str) -> None:
        self.row = row
        self.field = field
        self.reason = reason
        super().__init__(f"{row}: {f'{field}: ' if field else ''}{reason}")
