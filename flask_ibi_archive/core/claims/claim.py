"""Claims: one line each, in which an Archive says what it holds (federation, CL-1).

::

    ibi {rep dpi.inpe.br/banon/1999/01.09.22.14 ibip 8JMKD3MGP8W/34PGRBS} state Original ...
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256

from flask_ibi_archive.core.claims.tiles import MAX_ENTRY
from flask_ibi_archive.core.identifiers import Form
from flask_ibi_archive.core.identifiers.foreign import parse_foreign
from flask_ibi_archive.core.identifiers.grammar import match_identifier
from flask_ibi_archive.core.protocol.pairs import encode_word, pairs_as_dict, parse_pairs
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import ClaimError, IdentifierError, PeerProtocolError

#: The numbers that stand for states in the index of a resolver.
STATE_NUMBERS = {State.ORIGINAL: 1, State.COPY: 2, State.DELETED: 3}
_STATES = {state.value: state for state in STATE_NUMBERS}
#: The length of a key in the index in bytes.
KEY_SIZE = 16

_is_timestamp = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z").fullmatch
_is_sha256 = re.compile(r"[0-9a-f]{64}").fullmatch


@dataclass(frozen=True, slots=True)
class Claim:
    """What an Archive says about an item.

    :param rep: the identifier in the form of a repository name. None if the item has none.
    :param ibip: the identifier in the short form. None if the item has none.
    :param timestamp: the time of the last change, such as ``2009-07-21T13:23:45Z``.
    :param original_archive: for a Copy, the service IBI of the Archive that has the Original.
    :param aliases: further identifiers, of this system or of others, and former addresses, in
        canonical spelling.
    :param sha256: the SHA-256 of the target file in hexadecimal digits. None if it is unknown.
    """

    rep: str | None
    ibip: str | None
    state: State
    timestamp: str
    original_archive: str | None = None
    aliases: tuple[str, ...] = ()
    sha256: str | None = None

    @property
    def identifiers(self) -> tuple[str, ...]:
        """The rep and the ibip, as far as they exist."""
        return tuple(filter(None, (self.rep, self.ibip)))

    @property
    def names(self) -> tuple[str, ...]:
        """The identifiers and the aliases."""
        return (*self.identifiers, *self.aliases)


def format_claim(claim: Claim) -> bytes:
    """Return a claim in one line of ASCII text, without a line break."""
    forms = [f"{name} {ibi}" for name, ibi in (("rep", claim.rep), ("ibip", claim.ibip)) if ibi]
    pairs = [f"ibi {{{' '.join(forms)}}}", f"state {claim.state.value}"]
    pairs.append(f"timestamp {claim.timestamp}")
    if claim.original_archive is not None:
        pairs.append(f"ibi.archiveservice {claim.original_archive}")
    if claim.aliases:
        pairs.append(f"aliases {{{' '.join(map(encode_word, claim.aliases))}}}")
    if claim.sha256 is not None:
        pairs.append(f"sha256 {claim.sha256}")
    return " ".join(pairs).encode()


def parse_claim(entry: bytes) -> Claim:
    """Parse a claim. Pairs with unknown names are ignored.

    :raises ClaimError: if the entry is too long, is not one line of ASCII, or claims something that
        is malformed or contradicts itself. The message names the wrong pair.
    """
    if len(entry) > MAX_ENTRY or not entry.isascii() or b"\n" in entry or b"\r" in entry:
        raise ClaimError("a claim must be one line of ASCII text of at most 65535 bytes")
    try:
        pairs = pairs_as_dict(parse_pairs(entry))
    except PeerProtocolError as error:
        raise ClaimError(error.text, error.position) from error
    forms = pairs.get("ibi", ())
    named = dict(zip(forms[::2], forms[1::2], strict=False))
    if not named or len(forms) != 2 * len(named) or not named.keys() <= {"rep", "ibip"}:
        raise ClaimError("ibi: a claim must name the rep or the ibip of the item, or both")
    for name, ibi in named.items():
        if _canonicalize(ibi, Form(name)) != ibi:
            raise ClaimError(f"ibi: {ibi[:80]!a} is not a {name} in canonical case")
    word, timestamp = _read_word(pairs, "state"), _read_word(pairs, "timestamp")
    state = _STATES.get(word or "")
    if state is None:
        raise ClaimError(f"state: {str(word)[:80]!a} is not Original, Copy or Deleted")
    if timestamp is None or not _is_timestamp(timestamp):
        raise ClaimError("timestamp: a claim must have a time such as 2009-07-21T13:23:45Z")
    original = _read_word(pairs, "ibi.archiveservice")
    if (original is not None) != (state is State.COPY) or (
        original is not None and _canonicalize(original) != original
    ):
        raise ClaimError("ibi.archiveservice: a Copy, and only a Copy, names another Archive")
    digest = _read_word(pairs, "sha256")
    if digest is not None and not _is_sha256(digest):
        raise ClaimError("sha256: not 64 hexadecimal digits in lower case")
    aliases = pairs.get("aliases", ())
    for alias in aliases:
        name_key(alias)
    return Claim(named.get("rep"), named.get("ibip"), state, timestamp, original, aliases, digest)


def name_key(name: str) -> bytes:
    """Return the key of an identifier or an alias in the index of a resolver: 16 bytes.

    Names that are compared as equal have the same key.

    :raises ClaimError: if the text is neither an identifier nor an alias.
    """
    ibi = _canonicalize(name)
    if ibi is not None:
        return identifier_key(ibi)
    try:
        return bytes.fromhex(parse_foreign(name).digest)[:KEY_SIZE]
    except IdentifierError as error:
        raise ClaimError(f"{name[:80]!a} is neither an identifier nor an alias") from error


def identifier_key(ibi: str) -> bytes:
    """Return the key of an identifier in canonical case; see :func:`name_key`."""
    return sha256(b"ibi:" + ibi.encode()).digest()[:KEY_SIZE]


def _canonicalize(text: str, form: Form | None = None) -> str | None:
    """Return an identifier in canonical case; None if the text is none, or has another form."""
    # not parse_identifier, which explains at length why a text is none
    identifier = match_identifier(text)
    if identifier is None or form not in (None, identifier.form):
        return None
    return identifier.text


def _read_word(pairs: dict[str, tuple[str, ...]], name: str) -> str | None:
    """Return the value of a pair that has one word; None if the pair is missing."""
    words = pairs.get(name)
    if words is None:
        return None
    if len(words) != 1:
        raise ClaimError(f"{name}: the value must be one word")
    return words[0]
