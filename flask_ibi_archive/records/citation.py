"""The citation of an item: one line of text, made from its Dublin Core."""

from __future__ import annotations

import re

from flask_ibi_archive.records.record import DublinCore

YEAR = re.compile(r"[0-9]{4}")


def format_citation(elements: DublinCore, ibi: str) -> str | None:
    """Return the citation of an item, None if it has neither a creator nor a title.

    :param ibi: its identifier.
    :returns: as in ``Banon, G.; Ribeiro, L. (2009). Title. Publisher. IBI: <ibi>``.
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
    """Return a part with a full stop if it has no punctuation at its end."""
    return text if text.endswith((".", "!", "?")) else f"{text}."
