"""The audit of claims: after one of 1,000 resolutions, all Archives are asked about the item.

An answer that contradicts the claims of its Archive is counted and logged. After
:data:`MAX_CONTRADICTIONS`, the claims of the Archive no longer count: it is always asked. The
question contains an address that no reader has, so it tells nobody what a reader reads, and the
answer is what an Archive shows to the public. Source: federation CL-11.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

from sqlalchemy import update

from flask_ibi_archive.core.identifiers import Identifier
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.protocol.messages import format_request
from flask_ibi_archive.core.protocol.pairs import Pair, pairs_as_dict
from flask_ibi_archive.core.protocol.relations import NO_VERBS
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.answer import Question
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.resolver.archives import Knowledge
from flask_ibi_archive.resolver.asking import FanOut, Reply, Target
from flask_ibi_archive.resolver.old_claims.followed_logs import lock_archives
from flask_ibi_archive.resolver.old_claims.tables import CONTRADICTED, CURRENT, FollowedLog
from flask_ibi_archive.resolver.old_claims.versions import bump_version
from flask_ibi_archive.server.database.database import Database

#: The share of resolutions after which all Archives are asked.
SHARE = 0.001
#: The number of contradictions after which the claims of an Archive no longer count.
MAX_CONTRADICTIONS = 3
#: The seconds for which the reader waits for the answers. Later answers are not compared.
WAIT = 0.25
#: The address of the reader in the questions. It belongs to nobody (RFC 5737).
NOBODY = "192.0.2.1"

_logger = logging.getLogger(__name__)


def audit_claims(
    database: Database,
    fan_out: FanOut,
    ibi: Identifier,
    knowledge: Knowledge,
    own_service: str | None,
    max_age: float,
) -> None:
    """Ask all Archives whose claims count about an item, and compare their answers.

    :param own_service: the service of the Archive in this process, which can't be asked by HTTP.
    :param max_age: the seconds after which a change must be claimed.
    """
    question = Question(ibi, NO_VERBS)
    query = format_request(question.create_request((NOBODY,)))
    targets = [
        Target(archive, f"{archive.service_url}?{query}", question)
        for archive in knowledge.archives.archives.values()
        if archive.log_state == CURRENT and archive.service_ibi != own_service
    ]
    since = format_timestamp(datetime.now(timezone.utc) - timedelta(seconds=max_age))
    states = knowledge.claims[ibi].states
    replies = fan_out.ask(targets, WAIT)
    while (result := replies.get(WAIT)) is not None:
        archive = result.target.archive
        claimed = states.get(archive.id)
        if isinstance(result, Reply) and contradicts(claimed, result.pairs, since):
            reason = f"its answer about {ibi} contradicts its claims"
            _logger.warning("%s at %s: %s", archive.service_ibi, archive.address, reason)
            try:
                _count_contradiction(database, archive.id, reason)
            except StorageError as error:  # the reader has an outcome
                _logger.warning("a contradiction can't be stored: %s", error)
    replies.abandon()


def contradicts(claimed: State | None, pairs: Sequence[Pair], since: str) -> bool:
    """Return whether an answer contradicts a claim.

    An answer without a state says nothing: the Archive does not show the item to the public.

    :param since: items that were changed later may not be claimed yet.
    """
    answer = pairs_as_dict(list(pairs))
    if not answer:
        return claimed is not None
    state, timestamp = answer.get("state"), answer.get("timestamp", ("",))
    is_claimed = claimed is not None and state == (claimed.value,)
    return state is not None and not is_claimed and timestamp < (since,)


def _count_contradiction(database: Database, archive_id: int, reason: str) -> None:
    log = update(FollowedLog).where(FollowedLog.archive_id == archive_id)
    count = FollowedLog.contradictions
    with database.writing() as connection:
        lock_archives(connection, [archive_id])  # in the order of the follower
        connection.execute(log.values(contradictions=count + 1))
        ends_trust = log.where(count >= MAX_CONTRADICTIONS, FollowedLog.state == CURRENT)
        if connection.execute(ends_trust.values(state=CONTRADICTED, reason=reason)).rowcount:
            bump_version(connection, [archive_id])
