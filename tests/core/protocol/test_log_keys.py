"""Registration keys and passwords are not written to logs."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from support.cases import for_each
from support.vectors import load

from flask_ibi_archive.core.protocol.pairs import contains_key, hide_keys

CASES = load("core/protocol_log_keys.json")

SECRET = "1398434126-9174368274"


@pytest.fixture
def log() -> Iterator[tuple[logging.Logger, list[str]]]:
    """A logger that hides secrets, and the messages that it writes."""
    messages: list[str] = []

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logger, handler = logging.getLogger("a.logger.of.urls"), Notes()
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    hide_keys([logger.name])
    hide_keys([logger.name])  # a second call has no effect
    yield logger, messages
    logger.removeHandler(handler)
    for one in logger.filters[:]:
        logger.removeFilter(one)


def encode_letters(name: str, form: str) -> str:
    return "".join(form.format(ord(letter)) for letter in name)


@for_each(
    ("text", "written"),
    CASES["the logger writes the text without the secret"],
)
def test_the_logger_writes_the_text_without_the_secret(
    text: str, written: str, log: tuple[logging.Logger, list[str]]
) -> None:
    logger, messages = log
    logger.info("GET %s %d", text, 200)
    assert messages.pop() == f"GET {written} 200"


@for_each("form", ["%{:x}", "%{:X}"])
@for_each("name", ["registrationkey", "REGISTRATIONKEY", "password", "Password"])
def test_each_letter_of_the_name_may_be_percent_encoded(
    form: str, name: str, log: tuple[logging.Logger, list[str]]
) -> None:
    logger, messages = log
    for place in range(len(name)):
        coded = name[:place] + encode_letters(name[place], form) + name[place + 1 :]
        logger.info(f"/?{coded}={SECRET}&x=1")
        assert messages.pop() == f"/?{coded}=***&x=1"
        assert contains_key(f"{coded}={SECRET}") is name.lower().startswith("registration")


def test_a_wrong_log_message_is_still_given_to_the_logger(
    log: tuple[logging.Logger, list[str]],
) -> None:
    logger, _ = log
    record = logger.makeRecord(logger.name, logging.INFO, "", 0, "%d", ("a",), None)
    assert logger.filter(record)
    assert (record.msg, record.args) == ("%d", ("a",))
