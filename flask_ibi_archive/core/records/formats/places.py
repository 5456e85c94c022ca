"""The place of publication, which Dublin Core has no element for."""

from __future__ import annotations


def split_publisher(text: str | None) -> tuple[str | None, str | None]:
    """Return the place and the name of a publisher.

    Catalogues write ``São José dos Campos: INPE`` in dc:publisher.

    :returns: the place and the name; each of them is None if it is unknown.
    """
    if text is None:
        return None, None
    place, _, name = (part.strip() for part in text.partition(": "))
    return (place, name) if place and name else (None, text)
