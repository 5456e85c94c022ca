"""The type of parameters that are an IBI."""

from __future__ import annotations

import click


def read_ibi(text: str) -> str:
    """Return the IBI of a persistent URL; any other text is returned as it is, for the command to
    check.

    :raises MalformedPersistentUrl: if it is a URL without an IBI.
    :raises BadParameter: if the URL asks for more than the item.
    """
    from flask_ibi_archive.resolution.persistent_url import (
        PersistentUrl,
        is_persistent_url,
        parse_persistent_url,
    )

    if not is_persistent_url(text):
        return text
    url = parse_persistent_url(text)
    if url != PersistentUrl(url.ibi):
        raise click.BadParameter(
            f"{text!a} has a modifier, a path or a query after the IBI, which this command does not take; "
            f"give {url.ibi}"
        )
    return url.ibi.text
