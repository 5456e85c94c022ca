"""Imports files of records in several passes and in bounded memory."""
