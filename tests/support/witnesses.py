"""A witness as C2SP tlog-witness describes it, for one log whose entries it can read."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable
from time import time
from typing import Any

from flask_ibi_archive.core.claims.checkpoint import open_checkpoint
from flask_ibi_archive.core.claims.keys import TIMESTAMPED, SigningKey, VerifierKey
from support.merkle_trees import find_consistency, find_root

#: The paths of a witness below the address of a resolver.
ROOT = "/ibi/claims/witness"


class Witness:
    """A WSGI app that signs the checkpoints of one log.

    :param key: the public key of the log.
    :param read_entries: returns the entries of the log, to compute the right proofs.
    :ivar size: the size of the last tree that was signed.
    :ivar asked: the first line of each request for a signature.
    :ivar answer: returns another answer (status and body) to such a request.
    """

    def __init__(self, key: VerifierKey, read_entries: Callable[[], list[bytes]]) -> None:
        self.log_key = key
        self.read_entries = read_entries
        self.key = SigningKey("urlib.net/J8LNKB5R7W/3FUQHC5", b"w" * 32)
        self.clock: Callable[[], float] = time
        self.size = 0
        self.asked: list[str] = []
        self.answer: Callable[[str], tuple[str, str]] = self.sign

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer a request."""
        status, body = "404 Not Found", "not here\n"
        if environ["PATH_INFO"] == f"{ROOT}/key" and environ["REQUEST_METHOD"] == "GET":
            status, body = "200 OK", f"{self.key.verifier.format(TIMESTAMPED)}\n"
        elif (
            environ["PATH_INFO"] == f"{ROOT}/add-checkpoint" and environ["REQUEST_METHOD"] == "POST"
        ):
            text = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])).decode()
            self.asked.append(text.partition("\n")[0])
            status, body = self.answer(text)
        kind = "text/x.tlog.size" if status.startswith("409") else "text/plain; charset=utf-8"
        start_response(status, [("Content-Type", kind)])
        return [body.encode()]

    def sign(self, text: str) -> tuple[str, str]:
        """Return the answer to a request for a signature."""
        head, _, note = text.partition("\n\n")
        first, *proof = head.split("\n")
        old = int(first.removeprefix("old "))
        opened = open_checkpoint(note, self.log_key)
        if old != self.size:
            return "409 Conflict", f"{self.size}\n"
        entries = self.read_entries()[: opened.checkpoint.size]
        right = [b64encode(node).decode() for node in find_consistency(old, entries)]
        if proof != right or opened.checkpoint.root != find_root(entries):
            return "422 Unprocessable Entity", "the proof is wrong\n"
        self.size = opened.checkpoint.size
        return "200 OK", self.key.cosign(opened.note.text, int(self.clock())).format()
