"""Numbers in the bases 11, 17 and 27.

Source: [G] Tables 7.4 to 7.6, functions CONVERTTODECIMAL and CONVERTFROMDECIMAL of Algorithms 5, 6.
"""

from __future__ import annotations

GRAPHEMES = "23456789ABCDEFGHJKLMNPQRSTU"
"""The digits of base 27: "2" is zero, "U" is 26 ([G] Table 7.6)."""

_SYSTEMS = {11: "0123456789.", 17: "0123456789abcdef:", 27: GRAPHEMES}
_VALUES = {
    base: {
        spelling: value
        for value, digit in enumerate(digits)
        for spelling in (digit.lower(), digit.upper())
    }
    for base, digits in _SYSTEMS.items()
}


def convert_to_decimal(text: str, base: int) -> int:
    """Return the number of a text of digits.

    :param text: one or more digits, the highest first; case does not matter.
    :param base: 11 (IPv4), 17 (IPv6) or 27 (IBIp).
    :returns: the number, 0 or more.
    :raises ValueError: if the base is another one, the text is empty or has another character.
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
    """Return the text of a number in a base.

    :param number: 0 or more.
    :param base: 27 (IBIp), 11 (IPv4) or 17 (IPv6).
    :returns: its digits, the highest first, without leading zeros; upper case in base 27.
    :raises ValueError: if the number is negative or the base is another one.
    Source: [G] Tables 7.4 to 7.6; example: Table 7.3.
    """
    digits = _SYSTEMS.get(base)
    if digits is None:
        raise ValueError(f"base {base} is unknown; it must be 11, 17 or 27")
    if number < 0:
        raise ValueError(f"{number} is negative; it must be 0 or more")
    written = []
    while True:
        number, value = divmod(number, base)
        written.append(digits[value])
        if not number:
            return "".join(reversed(written))
