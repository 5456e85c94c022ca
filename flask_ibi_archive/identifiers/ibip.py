"""IBIps, the opaque identifiers based on IP: Algorithms 5 to 7 of [G], and their decoding."""

from __future__ import annotations

from fractions import Fraction

from flask_ibi_archive.errors import RefusedText
from flask_ibi_archive.identifiers.addresses import canonical_address, check_port
from flask_ibi_archive.identifiers.dates import (
    FIRST_IBIP_SECOND,
    get_calendar_date,
    join_seconds,
    split_seconds,
)
from flask_ibi_archive.identifiers.identifier import Form, Identifier
from flask_ibi_archive.identifiers.numerals import (
    GRAPHEMES,
    convert_from_decimal,
    convert_to_decimal,
)
from flask_ibi_archive.identifiers.repository import check_length

DEFAULT_PORT = 800
"""The port that a prefix does not contain ([G] 7, Algorithm 5, lines 1-4)."""

_ZERO = GRAPHEMES[0]

# The lengths of the longest codes: of an IPv6 address with eight full groups, of port 65535 and of
# the last second of the year 9999. Longer codes are refused before any arithmetic.
_MAX_ADDRESS_CODE = 34
_MAX_PORT_CODE = 4
_MAX_SECONDS_CODE = 8


def build_ibip_prefix(ip: str, port: int) -> str:
    """Return the prefix of the IBIps of a server.

    :param ip: its IPv4 or IPv6 address, in any spelling.
    :param port: 1 to 65535; 800 is omitted.
    :returns: as in ``8JMKD3MGP8W``, upper case.
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

    :param date: POSIX seconds (UTC), exact, from 1995-08-01T00:00:00Z on.
    :returns: as in ``34PGRBS``; for a fraction followed by ``W`` and its code.
    :raises ValueError: if the date is before 1995-08-01 or after the year 9999, or its fraction
        has too many digits.
    Source: [G] 7, Algorithm 6 (MOUNTSUFFIXOFIBIP). Erratum: it does not say how a fraction becomes
    an integer, and 0.1 and 0.01 would collide. Here the digits after the decimal point are the
    integer; each leading zero is written as "2", the grapheme of zero, which begins no other code.
    """
    seconds, digits = split_seconds(date)
    if seconds < FIRST_IBIP_SECOND:
        raise ValueError(
            f"POSIX second {seconds} is before 1995-08-01T00:00:00Z ({FIRST_IBIP_SECOND}), the "
            "first date that has an IBIp"
        )
    get_calendar_date(seconds)
    suffix = convert_from_decimal(seconds - FIRST_IBIP_SECOND)
    if not digits:
        return suffix
    zeros = len(digits) - len(digits.lstrip("0"))
    return f"{suffix}W{_ZERO * zeros}{convert_from_decimal(int(digits))}"


def build_ibip(ip: str, port: int, date: Fraction) -> Identifier:
    """Return the IBIp for an assignment.

    :param ip: address of the server.
    :param port: its port, 1 to 65535.
    :param date: date of the assignment, POSIX seconds (UTC), exact.
    :returns: the identifier, of the form ibip.
    :raises ValueError: if the address, the port or the date is wrong, or the IBIp would have more
        than 255 characters.
    Source: [G] 7, Algorithm 7 (MOUNTIBIP).
    """
    text = f"{build_ibip_prefix(ip, port)}/{build_ibip_suffix(date)}"
    check_length(text)
    return Identifier(Form.IBIP, text)


def decode_ibip_prefix(prefix: str) -> tuple[str, int]:
    """Return the address and port of the prefix of an IBIp, the reverse of Algorithm 5.

    :param prefix: canonical text, in the shape ``1*grapheme ("W" | "X") *grapheme``.
    :returns: ``(ip, port)``; the address in its canonical text.
    :raises RefusedText: if it is not the prefix of an address and a port.
    Source: [G] 7, on Algorithms 5 and 6.
    """
    separator, base, version = ("X", 17, "IPv6") if "X" in prefix else ("W", 11, "IPv4")
    code, _, port_code = prefix.partition(separator)
    if len(code) > _MAX_ADDRESS_CODE:
        raise RefusedText("address_code_too_long", code=code[:40], version=version)
    written = convert_from_decimal(convert_to_decimal(code, base=27), base)
    # A number has no leading zero; an address that begins with "::" had none.
    if written.startswith((".", ":")) and not written.startswith("::"):
        written = f"0{written}"
    try:
        ip = canonical_address(written)
    except ValueError:
        raise RefusedText("not_an_address", code=code, text=written, version=version) from None
    port = DEFAULT_PORT
    if port_code:
        port = convert_to_decimal(port_code[: _MAX_PORT_CODE + 1], 27)
        if not 1 <= port <= 65535:
            raise RefusedText("not_a_port", code=port_code[:40])
    right = build_ibip_prefix(ip, port)
    if right != prefix:
        raise RefusedText("prefix_not_canonical", ip=ip, port=port, right=right, prefix=prefix[:40])
    return ip, port


def decode_ibip_suffix(suffix: str) -> Fraction:
    """Return the date of the suffix of an IBIp, the reverse of Algorithm 6.

    :param suffix: canonical text, in the shape ``1*grapheme ["W" 1*grapheme]``.
    :returns: POSIX seconds (UTC), exact.
    :raises RefusedText: if it is not the suffix of a date up to the year 9999.
    Source: [G] 7, on Algorithms 5 and 6.
    """
    code, _, fraction_code = suffix.partition("W")
    seconds = FIRST_IBIP_SECOND + convert_to_decimal(code[: _MAX_SECONDS_CODE + 1], 27)
    get_calendar_date(seconds)
    digits = ""
    if fraction_code:
        zeros = len(fraction_code) - len(fraction_code.lstrip(_ZERO))
        digits = "0" * zeros + str(convert_to_decimal(fraction_code, 27))
    date = join_seconds(seconds, digits)
    right = build_ibip_suffix(date)
    if right != suffix:
        raise RefusedText("suffix_not_canonical", right=right[:40], suffix=suffix[:40])
    return date
