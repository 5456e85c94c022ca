"""The commands about the resolver of an Archive."""
