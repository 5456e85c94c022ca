"""Identifiers in the paths of routes."""

from __future__ import annotations

from werkzeug.routing import BaseConverter

#: The names of the converters in an app's routes; a host may have a converter named "ibi" of its
#: own.
ITEM = "flask_ibi_archive_item"
SERVICE = "flask_ibi_archive_service"


class IBIConverter(BaseConverter):
    """The two words or the four parts of an identifier, however its letters are written.

    Which of them are an identifier is told by parsing; here only their number counts, so that the
    rest of a path can follow.
    """

    regex = r"[^/]+/[^/]+(?:/[0-9]{4}/[0-9.]+)?"
    part_isolating = False
    weight = 150


class ServiceConverter(BaseConverter):
    """A path that has the shape of a service's IBI and nothing else, so that a host's routes stay
    its own.
    """

    regex = (
        r"[A-Za-z0-9.-]+/[A-Za-z0-9@.-]+/[0-9]{4}/[0-9.]+"
        r"|[2-9A-HJ-NP-Ua-hj-np-u]+[WXwx][2-9A-HJ-NP-Ua-hj-np-u]*"
        r"/[2-9A-HJ-NP-Ua-hj-np-u]+(?:[Ww][2-9A-HJ-NP-Ua-hj-np-u]+)?"
    )
    part_isolating = False
    weight = 150
