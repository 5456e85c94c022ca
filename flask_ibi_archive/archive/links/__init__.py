"""Addresses elsewhere that items lead to: whether they still answer."""
