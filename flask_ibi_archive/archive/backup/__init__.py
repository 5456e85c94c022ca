"""Backup and restore: all that an Archive keeps, in one file."""
