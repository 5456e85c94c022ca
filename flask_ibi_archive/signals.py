"""Signals that tell a host what happened in its Archive.

::

    from flask_ibi_archive.signals import item_deposited

    @item_deposited.connect_via(app)
    def announce(sender, ibi, **values):
        mail_the_librarian(f"new item: {ibi}")

The sender is the Flask app. Receivers should accept ``**values``, because later versions may add
values. All values are texts, numbers, None, or tuples of texts. ``ibi`` is the short form of the
identifier, ``rep`` and ``ibip`` are the two forms (one may be None), and ``archive`` is the service
IBI of the Archive that has the item.

========================  ==========================================================================
signal                    sent after; values
========================  ==========================================================================
``item_minted``           a new identifier was issued: ``ibi``, ``rep``, ``ibip``, ``archive``
``item_deposited``        an item, an edition or a translation was deposited: ``ibi``, ``rep``,
                          ``ibip``, ``archive``
``item_changed``          the record of an item changed, and its state did not: ``ibi``, ``rep``,
                          ``ibip``, ``archive``, ``state``, ``fields`` (the names of the changed
                          fields, such as ``("files", "language")``). The earlier edition of a new
                          edition changes too (``("next_edition",)``); an item that gets a
                          translation does not.
``item_state_changed``    the state of an item changed: ``ibi``, ``rep``, ``ibip``, ``archive``,
                          ``old_state`` (None if the Archive did not have the item), ``new_state``.
                          A transfer changes the state in both Archives.
``moved_away``            an Archive on another server has taken the Original of an item: ``ibi``,
                          ``rep``, ``ibip``, ``archive``, ``to`` (the service IBI of the other
                          Archive). item_state_changed is sent before, unless the item was removed.
``moved_here``            this Archive has taken the Original of an item from an Archive on another
                          server: ``ibi``, ``rep``, ``ibip``, ``archive``, ``giver`` (the service
                          IBI of the other Archive). item_state_changed is sent before, unless the
                          item was removed.
``url_requested``         a resolver asked for the URLs of an item: ``ibi`` (as asked),
                          ``client_address`` (None if unknown), ``filepath``, ``urls`` (the number
                          of pairs in the answer; 0 if the Archive does not have the item)
``access_acknowledged``   an access was stored: ``ibi`` of the delivered item, ``client_address``,
                          ``url``, ``persistent_url``, ``content_type``
``archive_included``      a resolver included the Archive: ``archive``, ``address``, ``resolver``
                          (its URL, or None if unknown), ``confirmed``, ``side`` ("archive" or
                          "resolver": which of the two sends the signal)
``archive_excluded``      a resolver excluded the Archive: the same values without ``confirmed``
``conflict_found``        a resolver read that two Archives claim the Original of an item, or one
                          alias for different items: ``conflict`` (its number), ``name`` (the
                          identifier or the alias), ``archives`` (the two service IBIs),
                          ``addresses`` (of the two Archives), ``url`` (of the page of the conflict,
                          or None if SERVER_NAME is not set)
========================  ==========================================================================

- Signals about items are sent after the commit. If the host has a session, this is the commit of
  the host; a change that is rolled back, also to a savepoint, sends no signal.
- The order of the signals of a transaction is the order of the changes.
- An exception in a receiver is logged, and has no effect on the change or on other receivers.
- A receiver is not called for changes that it makes itself. If it makes changes in the session of
  the host, it must commit the session.
- ``flask ibi import`` sends item_deposited for a new Original, item_state_changed for another new
  item, and the usual signal for an item that it changes; it does not report changed translations.
- ``flask ibi adopt`` and models with IdentifiedItem send the same signals as operations.
- If IBI_ANONYMISE_IPS is set, ``client_address`` is anonymised.
- Commands and threads send signals too; therefore a receiver may run without a request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from blinker import NamedSignal, Namespace

_signals = Namespace()
item_minted: NamedSignal = _signals.signal("item-minted")
item_deposited: NamedSignal = _signals.signal("item-deposited")
item_changed: NamedSignal = _signals.signal("item-changed")
item_state_changed: NamedSignal = _signals.signal("item-state-changed")
moved_away: NamedSignal = _signals.signal("moved-away")
moved_here: NamedSignal = _signals.signal("moved-here")
url_requested: NamedSignal = _signals.signal("url-requested")
access_acknowledged: NamedSignal = _signals.signal("access-acknowledged")
archive_included: NamedSignal = _signals.signal("archive-included")
archive_excluded: NamedSignal = _signals.signal("archive-excluded")
conflict_found: NamedSignal = _signals.signal("conflict-found")

log: logging.Logger = logging.getLogger(__name__)

#: The receivers that are running.
_running: ContextVar[tuple[Callable[..., Any], ...]] = ContextVar("running", default=())


@dataclass(frozen=True, slots=True)
class Notice:
    """A signal that will be sent, with its values.

    :param causes: the receivers that made the change. The signal is not sent to them. Otherwise a
        receiver that deposits an item would be called again and again.
    """

    signal: NamedSignal
    values: Mapping[str, Any]
    causes: tuple[Callable[..., Any], ...] = field(default_factory=_running.get)


@dataclass(frozen=True, slots=True)
class Notifier:
    """Sends signals.

    :param sender: the app that sends the signals. Its logger logs the errors of receivers.
    """

    sender: Any = None

    def send(self, notices: Iterable[Notice]) -> None:
        """Send signals in the given order. An exception in a receiver is logged."""
        for notice in notices:
            if not notice.signal.is_muted:
                for receiver in list(notice.signal.receivers_for(self.sender)):
                    if receiver not in notice.causes:
                        self._call(receiver, notice)

    def send_registration(
        self, side: str, confirmed: bool | None, archive: str, address: str, resolver: str | None
    ) -> None:
        """Send archive_included, or archive_excluded if ``confirmed`` is None."""
        values = {"side": side, "archive": archive, "address": address, "resolver": resolver}
        if confirmed is None:
            self.send([Notice(archive_excluded, values)])
        else:
            self.send([Notice(archive_included, {**values, "confirmed": confirmed})])

    def _call(self, receiver: Callable[..., Any], notice: Notice) -> None:
        token = _running.set((*notice.causes, receiver))
        try:
            receiver(self.sender, **notice.values)
        except Exception:  # noqa: BLE001 - the change is committed already
            name = getattr(receiver, "__qualname__", repr(receiver))
            getattr(self.sender, "logger", log).exception(
                "the receiver %s of the signal %s failed", name, notice.signal.name
            )
        finally:
            _running.reset(token)


#: Sends signals of an Archive or a resolver that belongs to no app.
NOBODY = Notifier()
