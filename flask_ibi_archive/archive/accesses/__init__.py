"""Accesses: how often readers requested items, as resolvers report it.

A resolver that has redirected a reader to an item sends the Archive an acknowledgment. Each valid
acknowledgment is stored as an access; accesses are added to daily counts, from which the
statistics are made. Old accesses are purged (deleted); their counts are not.
"""
