"""Dublin Core metadata: the names of the elements, and the texts that they may contain."""

from __future__ import annotations

import re

#: The fifteen elements, in the order of the Dublin Core Metadata Element Set.
ELEMENTS = (
    "title", "creator", "subject", "description", "publisher", "contributor", "date", "type",
    "format", "identifier", "source", "language", "relation", "coverage", "rights",
)  # fmt: skip

#: Matches the characters that XML 1.0 does not allow. Escaping does not make them legal.
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: Matches the values that xml:lang may have (the simple form of BCP 47).
LANGUAGE_TAG = re.compile(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*\Z")
