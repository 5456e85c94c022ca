"""Identifiers: the grammars of the three forms, their recognition, generation and decoding.

A repository name such as ``sid.inpe.br/mtc-m18.8080/2009/02.16.17.46`` (the form rep) consists of
the domain name of the server (here ``mtc-m18.sid.inpe.br``), the port, and the date of the
assignment. An IBIp such as ``8JMKD3MGP8W/34PGRBS`` contains the address and the port of a server,
and the date of the assignment. The address, the port and the date are numbers in base 27.

The comment above each pattern quotes the rule of the standard. The patterns accept only ASCII
characters. No pattern can match a part of a text in two ways. Therefore a mismatch is found as fast
as a match. Use the method ``fullmatch``, because a text with other characters before or after an
identifier is not an identifier. Even a line break is not allowed.

Source: [G] Tables 6.1 and 7.1; 6, Algorithms 1 to 3; 7, Algorithms 5 to 7, Tables 7.4 to 7.6.
"""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from flask_ibi_archive.core.identifiers import dates
from flask_ibi_archive.errors import Reason, RefusedText

MAX_LENGTH = 255
"""The maximum length of an identifier in characters."""

_ALPHANUM = "[A-Za-z0-9]"

# word = ALPHANUM | ALPHANUM *(ALPHANUM | "-") ALPHANUM
_WORD = rf"{_ALPHANUM}+(?:-+{_ALPHANUM}+)*"

# last-word = ALPHA | ALPHA *(ALPHANUM | "-") ALPHANUM
_LAST_WORD = rf"[A-Za-z]{_ALPHANUM}*(?:-+{_ALPHANUM}+)*"

# subdomain = *(word ".") last-word ["."]
_SUBDOMAIN = rf"(?:{_WORD}\.)*{_LAST_WORD}\.?"

# port = 1*DIGIT. The character before the port is ".". Before August 2010, it was "@".
_PORT = "[.@][0-9]+"

# year = 4*DIGIT. Erratum: the pattern requires exactly four digits, because Python has no dates
# after the year 9999.
_YEAR = "([0-9]{4})"

# month = 2DIGIT; day = 2DIGIT; hour = 2DIGIT; minute = 2DIGIT. The pattern also checks the ranges:
# month 01 to 12, day 01 to 31, hour 00 to 23, minute 00 to 59. The pattern does not check that the
# month has this day.
_MINUTES = r"(0[1-9]|1[0-2])\.(0[1-9]|[12][0-9]|3[01])\.(?:[01][0-9]|2[0-3])\.[0-5][0-9]"

# second = 2DIGIT ["." 1*DIGIT]
_SECOND = r"[0-5][0-9](?:\.[0-9]+)?"

# repository = subdomain "/" word [("." | "@") port] "/" year
#              "/" month "." day "." hour "." minute ["." second]
REPOSITORY = re.compile(rf"{_SUBDOMAIN}/{_WORD}(?:{_PORT})?/{_YEAR}/{_MINUTES}(?:\.{_SECOND})?")
"""Matches a repository name. The groups of a match are the year, the month and the day."""

# word = 1*(A-U without I and O | W | X | 2-9). W and X are separators. Each other character is a
# grapheme, a digit in base 27.
_GRAPHEME = "[2-9A-HJ-NP-Ua-hj-np-u]"

# IBIp = word "/" word. Algorithms 5 and 6 produce only words of this shape:
#        1*grapheme ("W" | "X") *grapheme "/" 1*grapheme ["W" 1*grapheme]
IBIP = re.compile(rf"{_GRAPHEME}+[WXwx]{_GRAPHEME}*/{_GRAPHEME}+(?:[Ww]{_GRAPHEME}+)?")
"""Matches an IBIp in upper or lower case."""

# This package defines a legacy identifier as two words of letters and digits. The first word
# contains "Z". [G] 7 reserves this letter.
LEGACY = re.compile(rf"(?=[^/]*Z){_ALPHANUM}+/{_ALPHANUM}+")
"""Matches a legacy identifier. Legacy identifiers are older than the standard."""

FOREIGN = re.compile(r"[^A-Za-z0-9./@-]")
"""Matches a character that is not allowed in identifiers."""

_NO_WORD_CHARACTER = re.compile("[^A-Za-z0-9-]")


def find_word_fault(word: str, *, last: bool = False) -> Reason | None:
    """Return why a text is not a valid word of a domain name; None if the word is valid.

    :param word: the text between two dots.
    :param last: whether the word is the last word. The rule for the last word is stricter.

    Source: [G] Table 6.1, rules word and last-word.
    """
    if not word:
        return Reason("word_empty")
    if wrong := _NO_WORD_CHARACTER.search(word):
        return Reason("word_character", character=wrong[0])
    if word[0] == "-" or word[-1] == "-":
        return Reason("word_hyphen")
    if last and not word[0].isalpha():
        return Reason("last_word")
    return None


class Form(str, Enum):
    """The form of an identifier. Messages contain the values as short names.

    ``rep`` is a repository name, and ``ibip`` is an IBIp. A ``legacy`` identifier is older than the
    standard.
    Source: [G] 5, 6 and 7.
    """

    REP = "rep"
    IBIP = "ibip"
    LEGACY = "legacy"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Identifier:
    """An identifier with its canonical text.

    The class does not check the text. Therefore use ``parse_identifier`` or a ``build_`` function
    to create an identifier. ``parse_identifier`` ignores upper and lower case, except in legacy
    identifiers.

    :param form: the form of the identifier.
    :param text: the text in lower case (rep), in upper case (ibip) or unchanged (legacy).

    Source: [G] 5, function c; 6 and 7 on case.
    """

    form: Form
    text: str

    @property
    def prefix(self) -> str:
        """The part that names the server, such as ``sid.inpe.br/mtc-m18`` or ``8JMKD3MGP8W``."""
        parts = self.text.split("/")
        return "/".join(parts[: len(parts) // 2])

    @property
    def suffix(self) -> str:
        """The part that the server assigns, such as ``2009/02.16.17.46`` or ``34PGRBS``."""
        return self.text.removeprefix(f"{self.prefix}/")

    def __str__(self) -> str:
        return self.text


def match_identifier(text: str) -> Identifier | None:
    """Return the identifier of a text, or None if the text is not an identifier.

    Source: [G] Tables 6.1 and 7.1 with their semantic rules.
    """
    if len(text) > MAX_LENGTH:
        return None
    if IBIP.fullmatch(text):
        return Identifier(Form.IBIP, text.upper())
    if match := REPOSITORY.fullmatch(text):
        year, month, day = match.groups()
        if year == "0000" or not month_has_day(year, month, day):
            return None
        return Identifier(Form.REP, text.lower())
    if LEGACY.fullmatch(text):
        return Identifier(Form.LEGACY, text)
    return None


def month_has_day(year: str, month: str, day: str) -> bool:
    """Return True if a day exists in a month: 31 exists in January, but not in April.

    :param year: the digits of the year, 0001 to 9999.
    :param month: the digits of the month, 01 to 12.
    :param day: the digits of the day, 01 or more.
    """
    return int(day) <= monthrange(int(year), int(month))[1]


DEFAULT_REPOSITORY_PORT = 80
"""The prefix of a repository name does not contain this port ([G] 6, Algorithm 1, line 12)."""

DEFAULT_IBIP_PORT = 800
"""The prefix of an IBIp does not contain this port ([G] 7, Algorithm 5, lines 1-4)."""

GRAPHEMES = "23456789ABCDEFGHJKLMNPQRSTU"
"""The digits of base 27. The value of "2" is 0, and the value of "U" is 26 ([G] Table 7.6)."""

_DIGITS = {11: "0123456789.", 17: "0123456789abcdef:", 27: GRAPHEMES}

# The lengths of the longest codes: of an IPv6 address with eight full groups, of port 65535, and of
# the end of the year 9999. Arithmetic with long numbers is slow. Therefore longer codes are refused
# before the arithmetic.
_MAX_ADDRESS_CODE = 34
_MAX_PORT_CODE = 4
_MAX_SECONDS_CODE = 8

_SHORTEST_SUFFIX = len("/2009/02.16.17.46")

_DOCUMENTATION = tuple(
    map(
        ip_network,
        ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
    )
)


def unmap(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Convert an IPv4-mapped IPv6 address to IPv4; return any other address unchanged.

    A socket for both IPv4 and IPv6 shows the IPv4 address of a client in this mapped notation.
    """
    return (ip.ipv4_mapped if isinstance(ip, IPv6Address) else None) or ip


def canonical_address(text: str) -> str:
    """Return the canonical text of an IP address.

    An IBIp encodes this text.

    :param text: an IPv4 or IPv6 address in any spelling.
    :returns: an IPv4 address in four decimal numbers, or an IPv6 address in hexadecimal groups. An
        IPv6 address has the form of RFC 5952: lower case, with ``::``. An IPv4-mapped IPv6 address
        becomes the IPv4 address.
    :raises ValueError: if the text is not an IP address, or if the address has a zone.

    Source: RFC 5952; [G] 7, Algorithm 5.
    """
    return str(_read_address(text))


def is_private_address(text: str) -> bool:
    """Return True if an address is private: many networks use the same address.

    An example of a private address is 192.168.1.100. Addresses for documentation are not private
    here, because examples use these addresses as public addresses.

    :raises ValueError: if the text is not an IP address.

    Source: RFC 5737, RFC 3849, RFC 9637.
    """
    address = _read_address(text)
    return not address.is_global and not any(address in network for network in _DOCUMENTATION)


def check_port(port: int) -> None:
    """Check that a port is in the allowed range.

    :raises ValueError: if the port is not a number from 1 to 65535.
    """
    if not 1 <= port <= 65535:
        raise ValueError(f"port {port} is not a number from 1 to 65535")


def _read_address(text: str) -> IPv4Address | IPv6Address:
    if "%" in text:
        raise ValueError(
            f"address {text[:80]!r} has a zone, which has no meaning on other computers; remove "
            "'%' and the zone"
        )
    try:
        address = ip_address(text)
    except ValueError as exc:
        raise ValueError(
            f"{text[:80]!r} is not an IP address such as 150.163.34.243 or 2001:252:0:1::2008:6"
        ) from exc
    # Newer Python versions write the end of an IPv4-mapped address as an IPv4 address. All other
    # IPv6 addresses have the same text in all Python versions.
    return unmap(address)


def check_host(host: str) -> None:
    """Check that a host name can be part of a repository name.

    :param host: a domain name of two or more words. A dot may follow the last word.
    :raises ValueError: if the host name is not such a domain name, or if the name is too long.

    Source: [G] Table 6.1 and 6, Algorithm 1.
    """
    if len(host) + _SHORTEST_SUFFIX > MAX_LENGTH:
        raise ValueError(
            f"host {host[:40]!r}... has {len(host)} characters; a host name may have at most "
            f"{MAX_LENGTH - _SHORTEST_SUFFIX} characters, because a date must follow"
        )
    if _is_address(host):
        raise ValueError(
            f"host {host!r} is an IP address; use a domain name such as mtc-m18.sid.inpe.br"
        )
    words = host.removesuffix(".").split(".")
    for number, word in enumerate(words, 1):
        # a host of one word has a simpler error, which follows
        fault = find_word_fault(word, last=number == len(words) and len(words) > 1)
        if fault:
            raise ValueError(
                f"host {host!r}: word {number}, {word!r}, {fault}; use a domain name such "
                "as mtc-m18.sid.inpe.br"
            )
    if len(words) == 1:
        raise ValueError(
            f"host {host!r} has one word only; use a full domain name such as mtc-m18.sid.inpe.br"
        )


def build_repository_prefix(host: str, port: int) -> str:
    """Return the prefix of the repository names of a server.

    :param host: the domain name of the server, in upper or lower case.
    :param port: the port of the server, 1 to 65535. The prefix does not contain port 80.
    :returns: a text such as ``sid.inpe.br/mtc-m18`` or ``sid.inpe.br/mtc-m18.8080``, in lower case.
    :raises ValueError: if the host or the port is wrong.

    Source: [G] 6, Algorithm 1 (MOUNTPREFIXOFNAMEOFUNIFORMREPOSITORY).
    """
    check_host(host)
    check_port(port)
    word, _, subdomain = host.lower().partition(".")
    prefix = f"{subdomain}/{word}"
    return prefix if port == DEFAULT_REPOSITORY_PORT else f"{prefix}.{port}"


def build_repository_suffix(date: Fraction) -> str:
    """Return the suffix of a repository name.

    :param date: POSIX seconds (UTC), exact.
    :returns: a text such as ``2009/02.16.17.46``, ``2009/02.16.17.46.05`` or
        ``2009/02.16.17.46.00.5``. The last two texts have seconds, and the last text has a
        fraction of a second.
    :raises RefusedText: if the year is not in 0001 to 9999, or if the fraction is too long.

    Source: [G] 6, Algorithm 2 (MOUNTSUFFIXOFNAMEOFUNIFORMREPOSITORY).
    """
    seconds, digits = dates.split_seconds(date)
    calendar_date = dates.get_calendar_date(seconds)
    # This code does not use strftime, because %Y has no leading zeros on some systems.
    suffix = (
        f"{calendar_date.year:04}/{calendar_date.month:02}.{calendar_date.day:02}"
        f".{calendar_date.hour:02}.{calendar_date.minute:02}"
    )
    if digits:
        return f"{suffix}.{calendar_date.second:02}.{digits}"
    return f"{suffix}.{calendar_date.second:02}" if calendar_date.second else suffix


def build_repository_name(host: str, port: int, date: Fraction) -> Identifier:
    """Return the repository name that a server assigns at a date.

    :param host: the domain name of the server.
    :param port: the port of the server, 1 to 65535.
    :param date: the date of the assignment in exact POSIX seconds (UTC).
    :raises ValueError: if the host, the port or the date is wrong, or if the repository name would
        have more than 255 characters.

    Source: [G] 6, Algorithm 3 (MOUNTNAMEOFUNIFORMREPOSITORY).
    """
    text = f"{build_repository_prefix(host, port)}/{build_repository_suffix(date)}"
    if len(text) > MAX_LENGTH:
        raise ValueError(
            f"identifier {text[:40]!r}... would have {len(text)} characters; at most {MAX_LENGTH} "
            "are allowed; use a shorter host name or a coarser granularity"
        )
    return Identifier(Form.REP, text)


def _is_address(host: str) -> bool:
    try:
        canonical_address(host)
    except ValueError:
        return False
    return True


def convert_to_decimal(text: str, base: int) -> int:
    """Return the number that the digits in a text represent.

    :param text: the digits, the most significant first. Digits of base 27 are in upper case.
    :param base: 11 (IPv4), 17 (IPv6) or 27 (IBIp).
    :returns: the number, 0 or more.
    :raises ValueError: if a character is not a digit of the base.

    Source: [G] Tables 7.4 to 7.6; example: Table 7.2.
    """
    number = 0
    for character in text:
        number = number * base + _DIGITS[base].index(character)
    return number


def convert_from_decimal(number: int, base: int = 27) -> str:
    """Return the digits of a number, 0 or more, in base 11 (IPv4), 17 (IPv6) or 27 (IBIp).

    :returns: the digits, the most significant first, without leading zeros. The digits of base 27
        are in upper case.

    Source: [G] Tables 7.4 to 7.6; example: Table 7.3.
    """
    number, value = divmod(number, base)
    written = _DIGITS[base][value]
    while number:
        number, value = divmod(number, base)
        written = _DIGITS[base][value] + written
    return written


def build_ibip_prefix(ip: str, port: int) -> str:
    """Return the prefix of the IBIps of a server.

    :param ip: the IPv4 or IPv6 address of the server, in any spelling.
    :param port: the port of the server, 1 to 65535. The prefix does not contain port 800.
    :returns: a text such as ``8JMKD3MGP8W``, in upper case.
    :raises ValueError: if the address or the port is wrong.

    Source: [G] 7, Algorithm 5 (MOUNTPREFIXOFIBIP); example: Tables 7.2 and 7.3.
    """
    address = canonical_address(ip)
    check_port(port)
    base, separator = (17, "X") if ":" in address else (11, "W")
    code = convert_from_decimal(convert_to_decimal(address, base))
    return code + separator + ("" if port == DEFAULT_IBIP_PORT else convert_from_decimal(port))


def build_ibip_suffix(date: Fraction) -> str:
    """Return the suffix of an IBIp.

    :param date: exact POSIX seconds (UTC), not before 1995-08-01T00:00:00Z.
    :returns: a text such as ``34PGRBS``. If the date has a fraction, ``W`` and the code of the
        fraction follow.
    :raises ValueError: if the date is before 1995-08-01 or after the year 9999, or if the fraction
        of the date has too many digits.

    Source: [G] 7, Algorithm 6 (MOUNTSUFFIXOFIBIP). Erratum: the algorithm does not say how a
    fraction becomes an integer. Here the integer consists of the digits after the decimal point.
    Each leading zero becomes a "2" before the code of the integer. Without this "2", 0.1 and
    0.01 would have the same code.
    """
    seconds, digits = dates.split_seconds(date)
    if seconds < dates.FIRST_IBIP_SECOND:
        raise ValueError(
            f"the date {seconds} (in POSIX seconds) is before 1995-08-01T00:00:00Z "
            f"({dates.FIRST_IBIP_SECOND}), the first date that has an IBIp"
        )
    dates.get_calendar_date(seconds)
    suffix = convert_from_decimal(seconds - dates.FIRST_IBIP_SECOND)
    if not digits:
        return suffix
    zeros = len(digits) - len(digits.lstrip("0"))
    return f"{suffix}W{GRAPHEMES[0] * zeros}{convert_from_decimal(int(digits))}"


def decode_ibip_prefix(prefix: str) -> tuple[str, int]:
    """Return the address and the port that the prefix of an IBIp encodes.

    :param prefix: a text in upper case that matches ``1*grapheme ("W" | "X") *grapheme``.
    :returns: ``(ip, port)``: the canonical text of the address, and the port, 1 to 65535.
    :raises RefusedText: if the prefix does not encode an address and a port, or if
        :func:`build_ibip_prefix` returns another prefix for them.

    Source: [G] 7, Algorithm 5, in reverse.
    """
    separator, base, version = ("X", 17, "IPv6") if "X" in prefix else ("W", 11, "IPv4")
    code, _, port_code = prefix.partition(separator)
    if len(code) > _MAX_ADDRESS_CODE:
        raise RefusedText("address_code_too_long", code=code[:40], version=version)
    written = convert_from_decimal(convert_to_decimal(code, base=27), base)
    # A number has no leading zero. Therefore the code of an address does not contain the "0" of
    # an address that begins with "0:" or "0.". This line adds that "0".
    if written.startswith((".", ":")) and not written.startswith("::"):
        written = f"0{written}"
    try:
        ip = canonical_address(written)
    except ValueError:
        raise RefusedText("not_an_address", code=code, text=written, version=version) from None
    port = DEFAULT_IBIP_PORT
    if port_code:
        # The rest of a longer code is cut off. One extra character is enough for the refusal: the
        # port is too large, or the code begins with a zero and is therefore not canonical.
        port = convert_to_decimal(port_code[: _MAX_PORT_CODE + 1], 27)
        if not 1 <= port <= 65535:
            raise RefusedText("not_a_port", code=port_code[:40])
    right = build_ibip_prefix(ip, port)
    if right != prefix:
        raise RefusedText("prefix_not_canonical", ip=ip, port=port, right=right, prefix=prefix[:40])
    return ip, port


def decode_ibip_suffix(suffix: str) -> Fraction:
    """Return the date that the suffix of an IBIp encodes.

    :param suffix: a text in upper case that matches ``1*grapheme ["W" 1*grapheme]``.
    :returns: POSIX seconds (UTC), exact.
    :raises RefusedText: if the suffix does not encode a date up to the year 9999, or if
        :func:`build_ibip_suffix` returns another suffix for this date.

    Source: [G] 7, Algorithm 6, in reverse.
    """
    code, _, fraction_code = suffix.partition("W")
    # The rest of a longer code is cut off. One extra character is enough for the refusal: the year
    # is too large, or the code begins with a zero and is therefore not canonical.
    seconds = dates.FIRST_IBIP_SECOND + convert_to_decimal(code[: _MAX_SECONDS_CODE + 1], 27)
    dates.get_calendar_date(seconds)  # raises RefusedText after the year 9999
    digits = ""
    if fraction_code:
        zeros = len(fraction_code) - len(fraction_code.lstrip(GRAPHEMES[0]))
        digits = "0" * zeros + str(convert_to_decimal(fraction_code, 27))
    date = dates.join_seconds(seconds, digits)
    right = build_ibip_suffix(date)
    if right != suffix:
        raise RefusedText("suffix_not_canonical", right=right[:40], suffix=suffix[:40])
    return date
