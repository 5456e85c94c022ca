"""What an Archive does: its use cases, over the storage."""
