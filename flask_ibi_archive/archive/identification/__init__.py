"""The identification server: gives identifiers to programs, and deposits items for them."""
