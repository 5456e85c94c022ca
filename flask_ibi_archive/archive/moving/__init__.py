"""Moves and copies items between Archives on different servers.

The *giver* is the Archive that offers items; the *taker* is the Archive that accepts them.

- ``offers``: at the giver, makes, lists and withdraws offers, and reads their items.
- ``views``: at the giver, answers the requests of the taker.
- ``switching``: at the giver, gives up the Originals that the taker has stored.
- ``client``: at the taker, reads an offer from the server of the giver.
- ``accepting``: at the taker, stores the offered items. It describes the states of a move.
- ``commands``: the commands ``offer``, ``offers`` and ``accept``.
"""
