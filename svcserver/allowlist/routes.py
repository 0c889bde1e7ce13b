"""The three routes of the allowlist helper.

The first of these faults decides the status: request from another machine or site (403), unknown
path (404), wrong secret (401), wrong method (405), body too large (413), bad JSON (400).
Spec: 2 §4 Allowlist helper.
"""

from attrs import define
from twisted.logger import Logger
from twisted.web.resource import IResource

from svcserver.allowlist.entries import Full, InvalidIp
from svcserver.allowlist.helper import Helper
from svcserver.http.crosssite import is_loopback
from svcserver.kernel import json
from svcserver.kernel.headers import GATEWAY
from svcserver.kernel.secrets import Secret
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer

log = Logger()

MAX_BODY = 1024  # bytes
METHODS = {b"/allow": ("POST",), b"/withdraw": ("POST",), b"/status": ("GET", "HEAD")}
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def json_answer(status: int, body: json.Json, headers: dict[str, str] | None = None) -> Answer:
    """Return an answer with a JSON body and the headers that all answers of the helper have."""
    return Answer(status, json.dump(body), {**_HEADERS, **(headers or {})})


@define(eq=False)
class AllowlistHandler:
    """An ``HttpHandler`` that answers only callers on this machine, such as the gateway."""

    helper: Helper
    secret: Secret
    max_json: int = MAX_BODY

    def early(self, request: HttpRequest, length: int | None) -> Answer | None:
        refusal = self._refusal(request)
        if refusal is None and length is not None and length > self.max_json:
            return self.page(413, None)
        return refusal

    def resource(self) -> IResource:
        """Return these routes as a ``twisted.web`` resource, for another program's site."""
        from svcserver.web.klein_site import AppResource  # our own channel needs no Klein

        routes = [(methods[0], path.decode()) for path, methods in METHODS.items()]
        return AppResource(self, routes, (GATEWAY,))

    def page(self, status: int, why: BaseException | None) -> Answer:
        return json_answer(
            status, {"error": "body_too_large" if status == 413 else "internal_error"}
        )

    def answer(self, request: HttpRequest) -> Answer:
        """Answer one request; never fails."""
        try:
            return self._refusal(request) or self._answer(request)
        except Exception:
            log.failure("a request failed")
            return self.page(500, None)

    def _refusal(self, request: HttpRequest) -> Answer | None:
        request.refused = request.foreign()
        if not is_loopback(request.peer) or request.refused:
            return json_answer(403, {"error": "forbidden"})
        methods = METHODS.get(request.path)
        if methods is None:
            return json_answer(404, {"error": "not_found"})
        if not self.secret.matches(request.header(b"x-allowlist-secret") or ""):
            self.helper.audit.unauthorized()
            return json_answer(401, {"error": "unauthorized"})
        if request.method not in methods:
            return json_answer(405, {"error": "method_not_allowed"}, {"Allow": ", ".join(methods)})
        return None

    def _answer(self, request: HttpRequest) -> Answer:
        if request.path == b"/status":
            return json_answer(200, self.helper.status())
        if len(request.body) > self.max_json:
            return self.page(413, None)
        try:
            body = json.parse(request.body or b"?")
        except json.BadJson:
            body = None
        if not isinstance(body, dict):
            return json_answer(400, {"error": "bad_request"})
        try:
            if request.path == b"/withdraw":
                return json_answer(200, {"withdrawn": self.helper.withdraw(body.get("network"))})
            ip, added = self.helper.allow(body.get("ip"))
        except InvalidIp as why:
            return json_answer(400, {"error": "invalid_ip", "reason": why.reason})
        except Full:
            return json_answer(503, {"error": "allowlist_full"})
        ttl = int(self.helper.entries.ttl_s)
        return json_answer(200, {"ip": ip, "added": added, "ttlSeconds": ttl})
