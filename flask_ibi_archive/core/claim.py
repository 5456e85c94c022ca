"""Claims: the items that an Archive says it has, as lines of signed pages (federation CL-1, CL-3).

::

    item 17 ibi {rep dpi.inpe.br/banon/1999/01.09.22.14 ibip 8JMKD3MGP8W/34PGRBS} state Original ...
    item 18 state Unclaimed

A page begins with lines about the page, and ends with the signature of the page::

    archive dpi.inpe.br/banon/1999/01.09.22.14
    epoch 5f2c9a1704b6d8e3
    after {}
    position 2-2-9c41d0be6a5f0173-5f2c9a1704b6d8e3
    more false
    time 2026-03-01T12:00:00Z
    hidden {8JMKD3MGP8W}
    item 17 ...
    signature 3kC2...

The signature is an Ed25519 signature (RFC 8032), in base64, of all bytes before the line
``signature``.

DOIs and Handles may contain any character. In a claim, all special characters of such a name are
percent-encoded, also "%". All other names contain no special characters.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from dataclasses import dataclass
from urllib.parse import quote, unquote

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from flask_ibi_archive.core.identifiers.foreign import parse_foreign
from flask_ibi_archive.core.identifiers.grammar import Form, match_identifier
from flask_ibi_archive.core.protocol.pairs import pairs_as_dict, parse_pairs
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import IdentifierError, PeerProtocolError

#: The maximum number of names of an item: its identifiers and its aliases.
MAX_NAMES = 500
#: The maximum length of a name in bytes, as a claim states it, and as it is compared.
MAX_NAME = 2048
#: The maximum length of the claims in a page in bytes. One claim is never longer.
MAX_PAGE = 1 << 20
#: The state of an item that is no longer claimed.
UNCLAIMED = "Unclaimed"

_STATES = {state.value: state for state in (State.ORIGINAL, State.COPY, State.DELETED)}
_is_item = re.compile(r"[A-Za-z0-9._/-]{1,255}").fullmatch
_is_timestamp = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z").fullmatch
_HEADER = ("archive", "epoch", "position", "more", "time")
_SIGNATURE = b"signature "
_ENCODED = ("doi:", "hdl:")
#: The characters of a word, without "%".
_WORD_CHARACTERS = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in "%{}")


@dataclass(frozen=True, slots=True)
class Claim:
    """The statement of an Archive that it holds an item, or no longer holds it.

    :param item: a text that stands for the item within an epoch.
    :param rep: the identifier in the form of a repository name. None if the item has none.
    :param ibip: the identifier in the short form. None if the item has none.
    :param state: the state of the item. None if the Archive no longer claims the item; then all
        later attributes are empty.
    :param timestamp: the time of the last change, such as ``2009-07-21T13:23:45Z``.
    :param original_archive: for a Copy, and for a Deleted item that was moved: the service IBI of
        the Archive that has the Original.
    :param aliases: further identifiers, of this system or of others, and former addresses, in
        canonical spelling.
    """

    item: str
    rep: str | None = None
    ibip: str | None = None
    state: State | None = None
    timestamp: str | None = None
    original_archive: str | None = None
    aliases: tuple[str, ...] = ()

    @property
    def identifiers(self) -> tuple[str, ...]:
        """The rep, then the ibip, without None."""
        return tuple(filter(None, (self.rep, self.ibip)))


@dataclass(frozen=True, slots=True)
class Page:
    """A part of the list of changes of an Archive.

    :param archive: the service IBI of the Archive.
    :param epoch: a random text that the Archive chooses when somebody begins to read the list. All
        positions of this reading contain the epoch.
    :param after: the position after which the page begins; "" at the beginning.
    :param position: the position at the end of the page. A reader asks for the next page with it.
    :param more: whether there are further claims after the page.
    :param time: when the page was made, such as ``2026-03-01T12:00:00Z``.
    :param hidden: the prefixes of the identifiers of items that the Archive does not show.
    :param claims: one line for each claim, not parsed; see :func:`parse_claim`.
    """

    archive: str
    epoch: str
    after: str
    position: str
    more: bool
    time: str
    hidden: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()


def format_claim(claim: Claim) -> str:
    """Return a claim in one line of ASCII text, without a line break."""
    if claim.state is None:
        return f"item {claim.item} state {UNCLAIMED}"
    forms = [f"{name} {ibi}" for name, ibi in (("rep", claim.rep), ("ibip", claim.ibip)) if ibi]
    pairs = [f"item {claim.item} ibi {{{' '.join(forms)}}} state {claim.state.value}"]
    pairs.append(f"timestamp {claim.timestamp}")
    if claim.original_archive is not None:
        pairs.append(f"ibi.archiveservice {claim.original_archive}")
    if claim.aliases:
        pairs.append(f"aliases {{{' '.join(map(_encode_name, claim.aliases))}}}")
    return " ".join(pairs)


def parse_claim(line: str) -> Claim:
    """Parse a claim. Pairs with unknown names are ignored.

    :raises PeerProtocolError: if a pair is malformed, or if two pairs contradict each other. The
        message names the wrong pair.
    """
    pairs = _parse_pairs(line.encode())
    item = _read_word(pairs, "item")
    if item is None or not _is_item(item):
        raise PeerProtocolError("item: a claim must have a short text that stands for the item")
    word = _read_word(pairs, "state")
    if word == UNCLAIMED:
        return Claim(item)
    state = _STATES.get(word or "")
    if state is None:
        raise PeerProtocolError(
            f"state: {str(word)[:80]!a} is not Original, Copy, Deleted or {UNCLAIMED}"
        )
    forms = pairs.get("ibi", ())
    named = dict(zip(forms[::2], forms[1::2], strict=False))
    if not named or len(forms) != 2 * len(named) or not named.keys() <= {"rep", "ibip"}:
        raise PeerProtocolError("ibi: a claim must name the rep or the ibip of the item, or both")
    for name, ibi in named.items():
        identifier = match_identifier(ibi)
        if identifier is None or identifier.form is not Form(name) or identifier.text != ibi:
            raise PeerProtocolError(f"ibi: {ibi[:80]!a} is not a {name} in canonical case")
    timestamp = _read_word(pairs, "timestamp")
    if timestamp is None or not _is_timestamp(timestamp):
        raise PeerProtocolError("timestamp: a claim must have a time such as 2009-07-21T13:23:45Z")
    original = _read_word(pairs, "ibi.archiveservice")
    if original is not None:
        service = match_identifier(original)
        if state is State.ORIGINAL or service is None or service.text != original:
            raise PeerProtocolError(
                "ibi.archiveservice: only a Copy or a Deleted item names an Archive"
            )
    elif state is State.COPY:
        raise PeerProtocolError("ibi.archiveservice: a Copy must name the Archive of the Original")
    words = pairs.get("aliases", ())
    if len(named) + len(words) > MAX_NAMES:
        raise PeerProtocolError(f"aliases: an item has at most {MAX_NAMES} names")
    try:
        aliases = tuple(map(_decode_name, words))
    except UnicodeDecodeError as error:
        raise PeerProtocolError(
            "aliases: the characters that %XX stands for must be in UTF-8"
        ) from error
    for alias in aliases:
        fold_name(alias)
    return Claim(item, named.get("rep"), named.get("ibip"), state, timestamp, original, aliases)


def fold_name(name: str) -> str:
    """Return a name in the spelling in which names are compared.

    The result is the same for all spellings of one identifier or alias.

    :raises PeerProtocolError: if the text is neither an identifier nor an alias, or is too long.
    """
    identifier = match_identifier(name)
    if identifier is not None:
        return identifier.text
    try:
        folded = parse_foreign(name).folded
    except IdentifierError as error:
        raise PeerProtocolError(f"{name[:80]!a} is neither an identifier nor an alias") from error
    if max(len(_encode_name(name)), len(folded.encode())) > MAX_NAME:
        raise PeerProtocolError(f"{name[:80]!a}...: a name has at most {MAX_NAME} bytes")
    return folded


def _encode_name(name: str) -> str:
    return quote(name, safe=_WORD_CHARACTERS) if name.startswith(_ENCODED) else name


def _decode_name(word: str) -> str:
    return unquote(word, errors="strict") if word.startswith(_ENCODED) else word


def format_page(page: Page, key: Ed25519PrivateKey) -> bytes:
    """Return the text of a page with its signature.

    :param key: the private key of the Archive.
    """
    lines = [
        f"archive {page.archive}",
        f"epoch {page.epoch}",
        f"after {page.after or '{}'}",
        f"position {page.position}",
        f"more {str(page.more).lower()}",
        f"time {page.time}",
        f"hidden {{{' '.join(page.hidden)}}}",
        *page.claims,
    ]
    content = "\n".join([*lines, ""]).encode()
    return content + _SIGNATURE + b64encode(key.sign(content)) + b"\n"


def parse_page(body: bytes, key: Ed25519PublicKey) -> Page:
    """Check the signature of a page, and parse the page.

    The claims are not parsed, because a malformed claim does not make the others invalid.

    :param key: the public key of the Archive.
    :raises PeerProtocolError: if the signature is missing or wrong, or if the page is malformed.
    """
    content, _, code = body.rpartition(b"\n" + _SIGNATURE)
    content += b"\n"
    try:
        key.verify(b64decode(code.strip(), validate=True), content)
        lines = content.decode("ascii").split("\n")[:-1]
    except (InvalidSignature, ValueError) as error:
        raise PeerProtocolError("the signature of the page is missing or wrong") from error
    end = next((n for n, line in enumerate(lines) if line.startswith("item ")), len(lines))
    pairs = _parse_pairs("\n".join(lines[:end]).encode())
    values = {name: _read_word(pairs, name) or "" for name in _HEADER}
    if values["more"] not in ("true", "false"):
        values["more"] = ""
    if not _is_timestamp(values["time"]):
        values["time"] = ""
    if missing := [name for name, value in values.items() if not value]:
        raise PeerProtocolError(f"{missing[0]}: missing or malformed in the header of the page")
    return Page(
        values["archive"],
        values["epoch"],
        " ".join(pairs.get("after", ())),
        values["position"],
        values["more"] == "true",
        values["time"],
        pairs.get("hidden", ()),
        tuple(lines[end:]),
    )


def format_key(archive: str, key: Ed25519PublicKey) -> str:
    """Return the public key of an Archive as pairs: ``archive I``, and ``key`` in base64.

    :param archive: the service IBI of the Archive.
    """
    return f"archive {archive}\nkey {b64encode(key.public_bytes_raw()).decode()}\n"


def parse_key(text: bytes | str, archive: str) -> Ed25519PublicKey:
    """Parse the text of :func:`format_key`, and return the public key.

    :param archive: the service IBI of the Archive that the text must name.
    :raises PeerProtocolError: if the text is malformed or names another Archive.
    """
    pairs = _parse_pairs(text.encode() if isinstance(text, str) else text)
    try:
        key = Ed25519PublicKey.from_public_bytes(
            b64decode(_read_word(pairs, "key") or "", validate=True)
        )
    except ValueError as error:
        raise PeerProtocolError("key: not an Ed25519 key in base64") from error
    if _read_word(pairs, "archive") != archive:
        raise PeerProtocolError(f"archive: the key is not that of {archive}")
    return key


def _parse_pairs(text: bytes) -> dict[str, tuple[str, ...]]:
    return pairs_as_dict(parse_pairs(text))


def _read_word(pairs: dict[str, tuple[str, ...]], name: str) -> str | None:
    """Return the value of a pair that has one word; None if the pair is missing."""
    words = pairs.get(name)
    if words is not None and len(words) != 1:
        raise PeerProtocolError(f"{name}: the value must be one word")
    return words[0] if words else None
