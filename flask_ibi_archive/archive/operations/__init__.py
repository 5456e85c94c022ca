"""The operations on items, each one transaction or a part of the host's."""
