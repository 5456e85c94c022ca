"""The records of items, as import and export write them: JSON Lines, one item a line. Pure."""
