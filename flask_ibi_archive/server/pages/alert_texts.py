"""The texts of alerts: what happened, what it means, and what the reader can do next."""

from __future__ import annotations

from typing import NamedTuple

from flask_ibi_archive.core.protocol.relations import StepKind
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, MissingPart
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl
from flask_ibi_archive.reasons import translatable
from flask_ibi_archive.server.pages.texts import format_number, get_language_name, gettext, ngettext

_COMPARE = translatable(
    "Compare the identifier, letter by letter, with the text from which you copied it."
)


class AlertTexts(NamedTuple):
    """The texts of an alert.

    :param heading: what happened.
    :param about: what it means.
    :param advice: what the reader can do next.
    """

    heading: str
    about: str
    advice: str


#: The English texts by kind of the alert, and for other cases. :func:`describe_alert` adds the
#: texts that depend on further facts.
TEXTS = {
    "loop": AlertTexts(
        translatable("The answers form a circle"),
        translatable(
            "Each answer refers to another item, and none of them says where the content is. The "
            "address that you opened is correct: the error is in the records of the items."
        ),
        translatable("Tell the institution that published the item, and send it the URL above."),
    ),
    "malformed": AlertTexts(
        translatable("This is not a persistent URL"),
        translatable(
            "The address contains an error. Perhaps a part was lost when the address was copied."
        ),
        translatable(
            "Check whether a part is missing at the end of the line, whether there is extra "
            "punctuation, and whether similar characters were confused (0 and O, 1 and I)."
        ),
    ),
    "method": AlertTexts(
        translatable("This address can only be opened, not changed"),
        translatable("Persistent URLs accept only the methods GET and HEAD."),
        translatable("Open the address in your browser."),
    ),
    "missing": AlertTexts(
        translatable("The item exists, but does not have what was requested"),
        "",
        translatable(
            "Check the part of the URL after the identifier, or choose something that the item has."
        ),
    ),
    "removed": AlertTexts(
        translatable("This item was removed"),
        translatable(
            "The identifier remains valid: it identifies the removed item and will never be "
            "assigned to another item."
        ),
        translatable("See on the page of the item why it was removed and what to read instead:"),
    ),
    "silent": AlertTexts(
        translatable("Not all Archives answered"),
        "",
        translatable("Wait a moment and try again. If the problem continues, try again later."),
    ),
    "suspects": AlertTexts(
        translatable("More than one source claims to have the original"),
        translatable(
            "An item has only one original, and you asked for the original. It is not possible to "
            "know which of these sources is right, so you were not redirected."
        ),
        translatable(
            "Tell the institutions responsible for these sources: one of them has to correct its "
            "records."
        ),
    ),
    "too_long": AlertTexts(
        translatable("The chain of items is too long"),
        translatable(
            "Each item refers to another one, and the search stopped after the maximum number of "
            "steps. What you requested may be in an item further along the chain."
        ),
        translatable(
            "Open the item above, at which the search stopped, and continue from there. Or tell "
            "the institution that published the item."
        ),
    ),
    "unknown": AlertTexts(
        translatable("No Archive has what was requested"),
        translatable("All Archives were searched, and none has an item with this identifier."),
        _COMPARE,
    ),
    "unknown_here": AlertTexts(
        translatable("This Archive does not have what was requested"),
        translatable(
            "No item of this Archive has this identifier, or the requested part of the item is in "
            "another Archive."
        ),
        _COMPARE,
    ),
    "unready": AlertTexts(
        translatable("No answer is possible at the moment"),
        translatable(
            "The service is temporarily unavailable. The address is correct and stays valid."
        ),
        translatable("Try again in a moment."),
    ),
}
MISSING_PARTS = {
    MissingPart.ACCESS: translatable(
        "The item exists, but no Archive has an address of the item that you may open."
    ),
    MissingPart.EDITION: translatable("No Archive knows which edition of the item is the last."),
    MissingPart.FILE: translatable("The item does not have the file that the URL asks for."),
    MissingPart.FORMAT: translatable(
        "The item has no metadata in the format that the URL asks for."
    ),
    MissingPart.METADATA: translatable("The item has no metadata that an Archive can show."),
    MissingPart.ORIGINAL: translatable("No Archive claims to have the original of the item."),
    MissingPart.TRANSLATION: translatable(
        "The item does not have the translation that the URL asks for."
    ),
}


def describe_alert(name: str, alert: Alert | None) -> AlertTexts:
    """Return the texts of an alert in the language of the page.

    :param name: a key of :data:`TEXTS`.
    """
    heading, about, advice = TEXTS[name]
    if alert is not None and alert.missing_part is not None:
        about = MISSING_PARTS[alert.missing_part]
    about = gettext(about) if about else ""
    if alert is not None and alert.kind is AlertKind.SILENT:
        about = ngettext(
            "The only Archive did not answer in time. The item may be in this Archive.",
            "{silent} of {count} Archives did not answer in time, and none of the others has what "
            "was requested. The item may be in an Archive that did not answer.",
            alert.asked,
            silent=format_number(alert.silent),
        )
    return AlertTexts(gettext(heading), about, gettext(advice))


def describe_part(url: PersistentUrl) -> str:
    """Return the text of the link to a part of an item, in the language of the page."""
    if url.verbs.file_list:
        return gettext("The list of files")
    step = url.verbs.relation.steps[-1]
    if step.kind is StepKind.TRANSLATION and step.parameter is not None:
        return gettext("The version in {language}", language=get_language_name(step.parameter))
    if step.parameter is not None:
        return gettext("The metadata in {format}", format=step.parameter)
    return gettext("The metadata")
