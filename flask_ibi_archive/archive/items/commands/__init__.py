"""The commands that change or show items."""
