"""The audit of claims: after some resolutions, all Archives are asked about the item.

An answer that differs from the claim of its Archive is only a suspicion at first. The item may have
changed, and the follower has not read the new claim yet. Therefore the Archive is asked again after
its log was read once more. If it gives the same answer, and still claims something else, this is a
*contradiction*. After :data:`MAX_CONTRADICTIONS`, the claims of the Archive no longer count: it is
always asked until it is included again, and the operator is told.

The questions contain an address that no reader has. Therefore the audit tells nobody what a reader
reads, and sees what an Archive shows to the public. Items that it does not show need no claim.
Source: federation CL-11.
"""

from __future__ import annotations

import logging
import os
import random
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from threading import Event, Lock, Thread

from sqlalchemy import Connection, select, update

from flask_ibi_archive.core.identifiers import Identifier
from flask_ibi_archive.core.protocol.messages import format_request
from flask_ibi_archive.core.protocol.pairs import Pair, pairs_as_dict
from flask_ibi_archive.core.protocol.relations import NO_VERBS
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.answer import Question
from flask_ibi_archive.errors import IBIError
from flask_ibi_archive.resolver.archive_list import ArchiveListReader, Knowledge
from flask_ibi_archive.resolver.archive_rows import IncludedArchive
from flask_ibi_archive.resolver.circuit_breaker import CircuitBreaker
from flask_ibi_archive.resolver.claims.followed_logs import TRUSTED, lock_archives
from flask_ibi_archive.resolver.claims.tables import CONTRADICTED, CURRENT, FollowedLog
from flask_ibi_archive.resolver.claims.versions import bump_version
from flask_ibi_archive.resolver.concurrent_requests import FanOut, Reply, Target
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.tables import RegisteredArchive
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.mail import compose_email, send_email

#: The number of contradictions after which the claims of an Archive no longer count.
MAX_CONTRADICTIONS = 3
#: The address of the reader in the questions. It belongs to nobody (RFC 5737).
NOBODY = "192.0.2.1"
#: The maximum number of Archives that are asked at the same time, and the seconds until the next
#: ones are asked. An audit asks all Archives, and must not slow down the resolutions.
BATCH = 64
BATCH_PAUSE = 1.0
#: The maximum number of items that wait for the audit. Further ones are not audited.
MAX_WAITING = 16
#: Seconds between two looks at the items and the suspicions.
PAUSE = 5.0
#: What an Archive says that does not know an item, or that shows it to nobody.
UNKNOWN, HIDDEN = "unknown", "hidden"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """An answer that differs from the claim of its Archive.

    :param held: what the Archive said: a state, or :data:`UNKNOWN`.
    :param answered_at: the time of the answer.
    """

    archive_id: int
    ibi: Identifier
    held: str
    answered_at: datetime


class Auditor:
    """Asks all Archives about some items, in a thread that starts with the first item. Thread-safe.

    :param now: returns the current time.
    :param chance: returns a number from 0 to 1.
    """

    def __init__(
        self,
        database: Database,
        archives: ArchiveListReader,
        fan_out: FanOut,
        circuit_breaker: CircuitBreaker,
        config: ResolverConfig,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._database = database
        self._archives = archives
        self._fan_out = fan_out
        self._circuit_breaker = circuit_breaker
        self._config = config
        self._now = now
        self._chance = chance
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_reset_after_fork, weakref.ref(self)))

    def _reset(self) -> None:
        self._lock = Lock()
        self._closing = Event()
        self._thread: Thread | None = None
        self._waiting: deque[tuple[Identifier, str | None]] = deque()
        self._suspicions: list[Suspicion] = []

    def consider(self, ibi: Identifier, own_service: str | None) -> None:
        """Audit an item that was resolved, if chance wants it.

        :param own_service: the IBI of the service of the Archive in this process, which can't be
            asked by HTTP, or None.
        """
        if self._chance() >= self._config.audit or len(self._waiting) >= MAX_WAITING:
            return
        self._waiting.append((ibi, own_service))
        with self._lock:
            if self._thread is None and not self._closing.is_set():
                self._thread = Thread(target=self._run, name="ibi-resolver-audit", daemon=True)
                self._thread.start()

    def run_once(self) -> None:
        """Ask about the items that wait, and again about suspicions if their logs were read.

        :raises IBIError: if the database does not answer, or an e-mail can't be sent.
        """
        while self._waiting:
            ibi, own_service = self._waiting.popleft()
            self._suspicions += self._compare(ibi, own_service)
        self._check_suspicions()

    def close(self, seconds: float = 2.0) -> None:
        """Stop the thread.

        :param seconds: the maximum time to wait for its end.
        """
        self._closing.set()
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._closing.wait(PAUSE):
            try:
                self.run_once()
            except IBIError as error:
                _logger.warning("claims can't be audited: %s", error)
            except Exception:  # later audits may succeed
                _logger.exception("claims can't be audited")

    def _compare(
        self, ibi: Identifier, own_service: str | None = None, only: Iterable[int] | None = None
    ) -> list[Suspicion]:
        """Ask Archives about an item, and return the answers that differ from their claims.

        :param only: the ids of the Archives to ask. None: all with valid claims.
        """
        known: Knowledge = self._database.read(partial(self._archives.read, identifiers=(ibi,)))
        included = known.archives.archives
        archives = [
            archive
            for archive in map(included.get, included if only is None else only)
            if archive is not None
            and archive.log_state == CURRENT
            and archive.service_ibi != own_service
        ]
        states = known.claims[ibi].states
        suspicions: list[Suspicion] = []
        for start in range(0, len(archives), BATCH):
            if start and self._closing.wait(BATCH_PAUSE):
                break
            now = self._now()
            suspicions += [
                Suspicion(archive_id, ibi, held, now)
                for archive_id, held in self._ask(archives[start : start + BATCH], ibi)
                if differs(states.get(archive_id), held)
            ]
        return suspicions

    def _ask(self, archives: Sequence[IncludedArchive], ibi: Identifier) -> list[tuple[int, str]]:
        """Return what each Archive that answers says about an item."""
        question = Question(ibi, NO_VERBS)
        query = format_request(question.create_request((NOBODY,)))
        targets = [
            Target(archive, f"{archive.service_url}?{query}", question)
            for archive in archives
            if self._circuit_breaker.allows_request(archive.id)
        ]
        replies = self._fan_out.ask(targets, self._config.deadline)
        answers = []
        while (result := replies.get(self._config.deadline)) is not None:
            if isinstance(result, Reply):
                answers.append((result.target.archive.id, read_state(result.pairs)))
        replies.abandon()
        return answers

    def _check_suspicions(self) -> None:
        """Ask again about the suspicions whose logs were read after the answer.

        Those whose logs are no longer read or no longer count are forgotten.
        """
        if not self._suspicions:
            return
        ids = {suspicion.archive_id for suspicion in self._suspicions}
        rows = self._database.read_rows(
            select(FollowedLog.archive_id, FollowedLog.read_at)
            .join(RegisteredArchive, RegisteredArchive.id == FollowedLog.archive_id)
            .where(FollowedLog.archive_id.in_(sorted(ids)), FollowedLog.state.in_(TRUSTED))
            .where(RegisteredArchive.included_at.is_not(None))
        )
        read_at: dict[int, datetime | None] = dict(rows)
        suspicions, self._suspicions = self._suspicions, []
        for suspicion in suspicions:
            moment = read_at.get(suspicion.archive_id)
            if moment is not None and moment <= suspicion.answered_at:
                self._suspicions.append(suspicion)
            elif moment is not None:
                again = self._compare(suspicion.ibi, only=[suspicion.archive_id])
                if [found.held for found in again] == [suspicion.held]:
                    self._count(suspicion)

    def _count(self, suspicion: Suspicion) -> None:
        with self._database.writing() as connection:
            ends_trust = _count_contradiction(connection, suspicion)
        name = self._archives.name(suspicion.archive_id)
        text = f"{name} says about {suspicion.ibi}: {suspicion.held}, but claims something else"
        _logger.warning("%s", text)
        if ends_trust and self._config.email is not None and self._config.mail is not None:
            body = (
                f"{text}. This was contradiction {MAX_CONTRADICTIONS} between its answers and its "
                "claims. Its claims no longer count, and it is asked about all items, until it "
                "sends a new inclusion request.\n"
            )
            subject = f"The claims of {name} are contradicted by its answers"
            admin = "IBI_RESOLVER_EMAIL", self._config.email
            send_email(
                self._config.mail,
                compose_email(self._config.mail, admin, self._config.email, subject, body),
            )


def read_state(pairs: Sequence[Pair]) -> str:
    """Return what an answer says about an item: a state, or that it is unknown or hidden."""
    words = pairs_as_dict(list(pairs)).get("state", ()) if pairs else ()
    if len(words) == 1 and words[0] in {state.value for state in State}:
        return words[0]
    return HIDDEN if pairs else UNKNOWN


def differs(claimed: State | None, held: str) -> bool:
    """Return whether an answer differs from a claim.

    A claimed item may be hidden from the public, but it is known and not removed.
    """
    if claimed is None:
        return held not in (UNKNOWN, HIDDEN)
    if held == HIDDEN:
        return claimed is State.DELETED
    return held != claimed.value


def _count_contradiction(connection: Connection, suspicion: Suspicion) -> bool:
    """Count a contradiction; return whether the claims of the Archive no longer count from now."""
    lock_archives(connection, [suspicion.archive_id])  # in the order of the follower
    log = update(FollowedLog).where(FollowedLog.archive_id == suspicion.archive_id)
    count = connection.execute(
        log.values(contradictions=FollowedLog.contradictions + 1).returning(
            FollowedLog.contradictions
        )
    ).scalar_one_or_none()
    if count is None or count < MAX_CONTRADICTIONS:
        return False
    reason = f"the answer about {suspicion.ibi} was: {suspicion.held}"
    is_new = connection.execute(
        log.where(FollowedLog.state != CONTRADICTED).values(state=CONTRADICTED, reason=reason)
    ).rowcount
    if is_new:
        bump_version(connection, [suspicion.archive_id])
    return bool(is_new)


def _reset_after_fork(reference: weakref.ref[Auditor]) -> None:
    """Delete the items in a forked process. The parent process audits them."""
    auditor = reference()
    if auditor is not None:
        auditor._reset()
