"""The web pages of Archives and resolvers.

- ``hooks``: answers persistent URLs and messages before the routes of the app.
- ``requests``: what a request contains. ``negotiation``: its language, formats and address.
- ``responses``: pages, pairs and headers. ``alerts``: an alert as a page or as pairs.
- ``texts``: translations. ``request_log``: one log line for each message and persistent URL.
"""
