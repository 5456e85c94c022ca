"""How an item is cited: a line of text made from its Dublin Core. Pure."""

from __future__ import annotations

import re

from flask_ibi_archive.records.record import DublinCore

YEAR = re.compile(r"[0-9]{4}")


def format_citation(elements: DublinCore, ibi: str) -> str | None:
    """Return how an item is cited, as in ``Banon, G.; Ribeiro, L. (2009). Title. Publisher. IBI:
    <ibi>``.

    :param ibi: its identifier.
    :returns: None where neither a creator nor a title is known.
    """
    creators = [value for value, _ in elements.get("creator", ())]
    titles = [value for value, _ in elements.get("title", ())]
    if not creators and not titles:
        return None
    dates = [value for value, _ in elements.get("date", ())]
    publishers = [value for value, _ in elements.get("publisher", ())]
    head = "; ".join(creators)
    if dates:
        year = YEAR.match(dates[0])
        head = f"{head} ({year.group() if year else dates[0]})".strip()
    parts = [head, *titles[:1], "; ".join(publishers), f"IBI: {ibi}"]
    return (
        " ".join(_sentence(" ".join(part.split())) for part in parts[:-1] if part) + f" {parts[-1]}"
    )


def _sentence(text: str) -> str:
    """End a part with one full stop, where it has no end of its own."""
    return text if text.endswith((".", "!", "?")) else f"{text}."
