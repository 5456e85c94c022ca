"""Generation and decoding of IBIps, the identifiers that contain an IP address.

An IBIp such as ``8JMKD3MGP8W/34PGRBS`` contains the address and the port of a server, and the date
of the assignment. The address, the port and the date are numbers in base 27.

Source: [G] 7, Algorithms 5 to 7, Tables 7.4 to 7.6.
"""

from __future__ import annotations

from fractions import Fraction

from flask_ibi_archive.core.identifiers.dates import (
    FIRST_IBIP_SECOND,
    get_calendar_date,
    join_seconds,
    split_seconds,
)
from flask_ibi_archive.core.identifiers.grammar import Form, Identifier
from flask_ibi_archive.core.identifiers.repository_names import (
    canonical_address,
    check_length,
    check_port,
)
from flask_ibi_archive.errors import RefusedText

DEFAULT_PORT = 800
"""The default port. A prefix does not contain this port ([G] 7, Algorithm 5, lines 1-4)."""

GRAPHEMES = "23456789ABCDEFGHJKLMNPQRSTU"
"""The digits of base 27. The value of "2" is 0, and the value of "U" is 26 ([G] Table 7.6)."""

_SYSTEMS = {11: "0123456789.", 17: "0123456789abcdef:", 27: GRAPHEMES}
_VALUES = {
    base: {
        spelling: value
        for value, digit in enumerate(digits)
        for spelling in (digit.lower(), digit.upper())
    }
    for base, digits in _SYSTEMS.items()
}

_ZERO = GRAPHEMES[0]

# The lengths of the longest codes: of an IPv6 address with eight full groups, of port 65535, and of
# the end of the year 9999. Arithmetic with long numbers is slow. Therefore longer codes are refused
# before the arithmetic.
_MAX_ADDRESS_CODE = 34
_MAX_PORT_CODE = 4
_MAX_SECONDS_CODE = 8


def convert_to_decimal(text: str, base: int) -> int:
    """Return the number that the digits in a text represent.

    :param text: one or more digits, the most significant first, in upper or lower case.
    :param base: 11 (IPv4), 17 (IPv6) or 27 (IBIp).
    :returns: the number, 0 or more.
    :raises ValueError: if the base is unknown, if the text is empty, or if a character is not a
        digit of the base.

    Source: [G] Tables 7.4 to 7.6; example: Table 7.2.
    """
    values = _VALUES.get(base)
    if values is None:
        raise ValueError(f"base {base} is unknown; it must be 11, 17 or 27")
    if not text:
        raise ValueError(f"the text is empty; a number in base {base} has one or more digits")
    number = 0
    for character in text:
        value = values.get(character)
        if value is None:
            raise ValueError(
                f"{character!r} is not a digit of base {base}; the digits are {_SYSTEMS[base]}"
            )
        number = number * base + value
    return number


def convert_from_decimal(number: int, base: int = 27) -> str:
    """Return the digits of a number in base 11, 17 or 27.

    :param number: 0 or more.
    :param base: 27 (IBIp), 11 (IPv4) or 17 (IPv6).
    :returns: the digits, the most significant first, without leading zeros. The digits of base 27
        are in upper case.
    :raises ValueError: if the number is negative or the base is unknown.

    Source: [G] Tables 7.4 to 7.6; example: Table 7.3.
    """
    digits = _SYSTEMS.get(base)
    if digits is None:
        raise ValueError(f"base {base} is unknown; it must be 11, 17 or 27")
    if number < 0:
        raise ValueError(f"{number} is negative; the number must be 0 or more")
    written = []
    while True:
        number, value = divmod(number, base)
        written.append(digits[value])
        if not number:
            return "".join(reversed(written))


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
    return code + separator + ("" if port == DEFAULT_PORT else convert_from_decimal(port))


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
    seconds, digits = split_seconds(date)
    if seconds < FIRST_IBIP_SECOND:
        raise ValueError(
            f"the date {seconds} (in POSIX seconds) is before 1995-08-01T00:00:00Z "
            f"({FIRST_IBIP_SECOND}), the first date that has an IBIp"
        )
    get_calendar_date(seconds)
    suffix = convert_from_decimal(seconds - FIRST_IBIP_SECOND)
    if not digits:
        return suffix
    zeros = len(digits) - len(digits.lstrip("0"))
    return f"{suffix}W{_ZERO * zeros}{convert_from_decimal(int(digits))}"


def build_ibip(ip: str, port: int, date: Fraction) -> Identifier:
    """Return the IBIp that a server assigns at a date.

    :param ip: the IP address of the server.
    :param port: the port of the server, 1 to 65535.
    :param date: the date of the assignment in exact POSIX seconds (UTC).
    :raises ValueError: if the address, the port or the date is wrong, or if the IBIp would have
        more than 255 characters.

    Source: [G] 7, Algorithm 7 (MOUNTIBIP).
    """
    text = f"{build_ibip_prefix(ip, port)}/{build_ibip_suffix(date)}"
    check_length(text)
    return Identifier(Form.IBIP, text)


def decode_ibip_prefix(prefix: str) -> tuple[str, int]:
    """Return the address and the port that the prefix of an IBIp encodes.

    :param prefix: canonical text of the shape ``1*grapheme ("W" | "X") *grapheme``.
    :returns: ``(ip, port)``. The address is in canonical text.
    :raises RefusedText: if the prefix does not encode an address and a port.

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
    port = DEFAULT_PORT
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

    :param suffix: canonical text of the shape ``1*grapheme ["W" 1*grapheme]``.
    :returns: POSIX seconds (UTC), exact.
    :raises RefusedText: if the suffix does not encode a date up to the year 9999, or if the IBIp of
        this date has another suffix.

    Source: [G] 7, Algorithm 6, in reverse.
    """
    code, _, fraction_code = suffix.partition("W")
    # The rest of a longer code is cut off. One extra character is enough for the refusal: the year
    # is too large, or the code begins with a zero and is therefore not canonical.
    seconds = FIRST_IBIP_SECOND + convert_to_decimal(code[: _MAX_SECONDS_CODE + 1], 27)
    get_calendar_date(seconds)  # raises RefusedText after the year 9999
    digits = ""
    if fraction_code:
        zeros = len(fraction_code) - len(fraction_code.lstrip(_ZERO))
        digits = "0" * zeros + str(convert_to_decimal(fraction_code, 27))
    date = join_seconds(seconds, digits)
    right = build_ibip_suffix(date)
    if right != suffix:
        raise RefusedText("suffix_not_canonical", right=right[:40], suffix=suffix[:40])
    return date
