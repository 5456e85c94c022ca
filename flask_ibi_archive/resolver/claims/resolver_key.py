"""The private key of a resolver, with which it signs as a witness and signs its list of Archives.

The key is in a file, not in the database or its backups. The file has the form of a private key of
the C2SP signed-note tools: one line "PRIVATE+KEY+name+number+key". It contains the name too, so
that the name does not change with the settings.
"""

from __future__ import annotations

import os
from contextlib import suppress
from secrets import token_bytes, token_hex

from flask_ibi_archive.core.claims.keys import KEY_SIZE, PLAIN, SigningKey
from flask_ibi_archive.core.claims.signed_note import decode_base64, encode_base64
from flask_ibi_archive.errors import ClaimError, StorageError
from flask_ibi_archive.resolver.config import ResolverConfig

#: The name of the file in the folder IBI_RESOLVER_CLAIMS_FOLDER.
FILE = "resolver_key"
_PREFIX = "PRIVATE+KEY+"


def choose_name(config: ResolverConfig) -> str:
    """Return the name of a new key: the IBI of the service, "@" and the host in SERVER_NAME.

    Resolvers may have the same service IBI; the host makes the name unique.
    """
    host = config.server_name
    return config.service_ibi if host is None else f"{config.service_ibi}@{host}"


def create_key(config: ResolverConfig) -> SigningKey:
    """Return the key of the resolver. If there is none, a new key is stored first.

    :raises StorageError: if the file cannot be written, or is not a key.
    """
    key = read_key(config)
    if key is not None:
        return key
    folder, name = config.claims_folder, choose_name(config)
    key = SigningKey(name, token_bytes(KEY_SIZE))
    new = folder / f"{FILE}.{token_hex(8)}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{format_private_key(key)}\n")
            file.flush()
            os.fsync(file.fileno())
        # unlike a rename, a link never replaces the key that another process stored meanwhile
        with suppress(FileExistsError):
            os.link(new, folder / FILE)
        new.unlink()
    except OSError as error:
        raise StorageError(
            f"the key of the resolver can't be stored in {folder}: {error.strerror or error}; "
            "set IBI_RESOLVER_CLAIMS_FOLDER to a folder that this process may write"
        ) from error
    return read_key(config) or key


def read_key(config: ResolverConfig) -> SigningKey | None:
    """Return the key of the resolver; None if ``flask ibi-resolver init`` has not stored one.

    :raises StorageError: if the file cannot be read, or is not a key.
    """
    path = config.claims_folder / FILE
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"the key of the resolver in {path} can't be read") from error
    try:
        return parse_private_key(text.removesuffix("\n"))
    except ClaimError:
        # no cause, because its message may contain the key
        raise StorageError(f"{path} does not contain the key of the resolver") from None


def format_private_key(key: SigningKey) -> str:
    """Return a private key in one line. Source: the note tools of C2SP signed-note."""
    code = encode_base64(bytes([PLAIN]) + key.seed)
    return f"{_PREFIX}{key.name}+{key.verifier.find_id(PLAIN):08x}+{code}"


def parse_private_key(text: str) -> SigningKey:
    """Parse the line that :func:`format_private_key` returns.

    :raises ClaimError: if the text is not an Ed25519 key. The message may contain the key.
    """
    name, _, rest = text.removeprefix(_PREFIX).partition("+")
    data = decode_base64(rest.partition("+")[2])
    if len(data) != 1 + KEY_SIZE:
        raise ClaimError("a private key must have 32 bytes")
    key = SigningKey(name, data[1:])
    if format_private_key(key) != text:
        raise ClaimError("a private key has another form or a wrong number")
    return key
