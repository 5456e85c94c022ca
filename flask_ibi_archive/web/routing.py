"""Keeps the route of the service from taking what is the host's: it matches every path of an IBI's
shape.
"""

from __future__ import annotations

from typing import Any

from flask import Flask, request, request_started
from werkzeug.exceptions import HTTPException
from werkzeug.routing import Map, Rule

from flask_ibi_archive.errors import ConfigError, NotReady
from flask_ibi_archive.web.context import EXTENSION, RESOLVER_EXTENSION
from flask_ibi_archive.web.service import MESSAGE, is_service


class ServiceRoute:
    """The route of the service in an app: hands on what came to another address than the service's
    own.

    Which address that is only the database tells, so the route itself can't. What is handed on goes
    where it would have gone without the route: to a route of the host, with the hooks of its
    blueprint, or to nobody.
    """

    def __init__(self, app: Flask, endpoint: str) -> None:
        self.app = app
        self.endpoint = endpoint
        self._others: tuple[list[Rule], Map, dict[int, Rule]] | None = None
        # not a before_request function: those of the host's blueprints would have been chosen
        # already
        request_started.connect(self.hand_on, app)

    def hand_on(self, sender: Flask, **extra: Any) -> None:
        """Route a request anew that is not for the service."""
        rule = request.url_rule
        if rule is None or rule.endpoint != self.endpoint:
            return
        if self._is_for_service((request.view_args or {})["ibi"]):
            return
        adapter = self.app.create_url_adapter(request)
        if adapter is None:  # there always is one for a request
            return
        adapter.map, originals = self._get_others()
        request.url_rule, request.view_args = None, None
        try:
            found, values = adapter.match(return_rule=True)
        except HTTPException as error:
            request.routing_exception = error
        else:
            request.url_rule, request.view_args = originals[id(found)], dict(values)

    def _is_for_service(self, ibi: str) -> bool:
        archive = self.app.extensions[EXTENSION].archive
        try:
            return is_service(archive, ibi)
        except ConfigError:
            return True
        except NotReady:
            # it can't be told; but every message to the service has a subject
            resolves = archive.config.local_resolution or RESOLVER_EXTENSION in self.app.extensions
            return not resolves or MESSAGE in request.query_string

    def _get_others(self) -> tuple[Map, dict[int, Rule]]:
        """Return the app's routes without ours, and for each copy in there the route that it is of."""
        rules = list(self.app.url_map.iter_rules())
        if self._others is None or self._others[0] != rules:
            ours = self.app.url_map
            others = Map(
                default_subdomain=ours.default_subdomain,
                strict_slashes=ours.strict_slashes,
                merge_slashes=ours.merge_slashes,
                redirect_defaults=ours.redirect_defaults,
                converters=ours.converters,
                host_matching=ours.host_matching,
            )
            originals = {}
            for rule in rules:
                if rule.endpoint != self.endpoint:
                    copy = rule.empty()
                    # these it leaves out
                    copy.merge_slashes, copy.websocket = rule.merge_slashes, rule.websocket
                    others.add(copy)
                    originals[id(copy)] = rule
            self._others = rules, others, originals
        return self._others[1:]
