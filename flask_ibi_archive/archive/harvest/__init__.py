"""Harvesting with OAI-PMH: the view, the messages, the descriptions of changed items."""
