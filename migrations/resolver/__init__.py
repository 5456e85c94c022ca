"""The history of a resolver's tables, apart from that of an Archive's."""
