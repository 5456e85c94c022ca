"""Requests to other servers, and the guard against addresses that must not be reached."""
