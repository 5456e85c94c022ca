"""Reads the gettext catalogues with the translations of the pages.

The messages are English sentences, so English needs no catalogue. The catalogue of another language
is the file ``translations/<language>/LC_MESSAGES/ibi_archive.po``. The files are read as they are;
no compiled files are needed.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from dataclasses import dataclass
from gettext import GNUTranslations, NullTranslations
from io import BytesIO
from pathlib import Path

from babel import Locale, UnknownLocaleError
from babel.messages import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import PoFileError, read_po

#: The folder with one folder for each language.
FOLDER = Path(__file__).parent / "translations"
#: The path of a catalogue in the folder of its language.
FILE = Path("LC_MESSAGES", "ibi_archive.po")
#: The language of the messages, and of readers who prefer no language of the pages.
ENGLISH = "en"


@dataclass(frozen=True, slots=True, eq=False)
class Catalogue:
    """The translations of the pages into one language.

    :param tag: the tag of the language (BCP 47), such as ``pt`` or ``zh-Hant``.
    :param name: the name of the language in the language itself.
    :param locale: the rules for dates, numbers and names of languages.
    :param messages: the translations of the messages.
    """

    tag: str
    name: str
    locale: Locale
    messages: NullTranslations


def read_catalogues(folder: Path = FOLDER) -> tuple[dict[str, Catalogue], list[str]]:
    """Read all catalogues in a folder.

    :returns: the catalogues by tag in lower case, and a description of each error. A language whose
        catalogue cannot be read is missing. A message whose translation has other placeholders is
        shown in English.
    """
    # readers of English are in many countries: 1 March 2027, not March 1, 2027
    world = Locale("en", "001")
    found = {ENGLISH: Catalogue(ENGLISH, "English", world, NullTranslations())}
    errors = []
    for path in sorted(folder.glob("*")) if folder.is_dir() else ():
        try:
            locale = Locale.parse(path.name)
            with (path / FILE).open("rb") as file:
                messages = read_po(file, locale, abort_invalid=True)
        except PoFileError as error:
            errors.append(f"{path / FILE}, line {error.lineno + 1}: {error}")
        except (OSError, ValueError, UnknownLocaleError) as error:
            errors.append(f"{path / FILE}: {error}")
        else:
            for wrong in list_wrong_messages(messages):
                text = f"the translation of {wrong.id!r} has other placeholders than the message"
                errors.append(f"{path / FILE}: {text}")
                messages.delete(wrong.id)
            tag = path.name.replace("_", "-")
            name = locale.get_display_name() or tag
            found[tag.lower()] = Catalogue(tag, name, locale, _compile(messages))
    return found, errors


def list_wrong_messages(messages: Catalog) -> Iterator[Message]:
    """Yield the messages whose translations have other placeholders than the messages."""
    for message in list(messages):
        if not message.id or not message.string:
            continue
        texts, ids = (
            (text,) if isinstance(text, str) else text for text in (message.string, message.id)
        )
        expected = {field for text in ids for field in list_fields(text)}
        found = [set(list_fields(text)) for text in texts if text]
        # one of the forms may be a word such as "one" instead of the number
        if any(fields - expected for fields in found) or expected - set().union(*found):
            yield message


def list_fields(text: str) -> list[tuple[str, str | None]]:
    """Return the names and conversions of the placeholders in a text.

    >>> list_fields("{length} characters in {text!r}")
    [('length', None), ('text', 'r')]
    >>> list_fields("{length")
    [('', None)]
    """
    try:
        found = list(string.Formatter().parse(text))
    except ValueError:  # an opening brace without its closing brace
        return [("", None)]
    return [(name, conversion) for _, name, _, conversion in found if name is not None]


def _compile(messages: Catalog) -> GNUTranslations:
    compiled = BytesIO()
    write_mo(compiled, messages)
    compiled.seek(0)
    return GNUTranslations(compiled)
