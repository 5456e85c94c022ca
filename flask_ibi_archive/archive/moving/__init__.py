"""Moves and copies items between Archives on different servers."""
