"""Errors of settings and identifiers, and of giving those."""

from __future__ import annotations

from flask_ibi_archive.errors.base import IBIError


class ConfigError(IBIError):
    """A setting is missing or wrong.

    :param key: the configuration key.
    :param value: the value found (None: none). It is shown in the message: never pass a secret.
    :param expected: what it should be.
    """

    def __init__(self, key: str, value: object, expected: str) -> None:
        self.key = key
        self.value = value
        self.expected = expected
        found = "is not set" if value is None else f"is {value!r}"
        super().__init__(f"{key} {found}; it should be {expected}")


class IdentifierError(IBIError, ValueError):
    """A text is no identifier.

    :param text: the text.
    :param rule: what is wrong with it.
    :param suggestion: the identifier that was probably meant, if exactly one repair gives one.
    """

    def __init__(self, text: str, rule: str, suggestion: str | None = None) -> None:
        self.text = text
        self.rule = rule
        self.suggestion = suggestion
        hint = f"; did you mean {suggestion}?" if suggestion else ""
        super().__init__(f"{text[:300]!r} is no IBI: {rule}{hint}")


class MintingError(IBIError):
    """No identifier can be given now; nothing was used up."""


class ClockError(MintingError):
    """The next date lies too far ahead of the clock.

    :param wait: seconds that would have to be waited.
    :param limit: seconds that may be waited.
    :param advice: what to do about it.
    """

    def __init__(self, wait: float, limit: float, advice: str) -> None:
        self.wait = wait
        self.limit = limit
        self.advice = advice
        super().__init__(
            f"the next free date comes in {wait:.3f} s, more than IBI_MINT_MAX_WAIT ({limit:g} s) "
            f"allows; {advice}"
        )
