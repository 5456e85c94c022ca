"""Harvesting with OAI-PMH: the log of changes, the protocol, the view."""
