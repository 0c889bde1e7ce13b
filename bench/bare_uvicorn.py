"""The second yardstick of reads: uvicorn and starlette with one JSON route, access log on."""

from __future__ import annotations

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

BODY = {"show-status": True, "text": "x" * 360}


async def status(request: Request) -> JSONResponse:
    """The whole work of the yardstick."""
    return JSONResponse(BODY)


def main() -> None:
    """Serve on the port of the first argument, with llhttp and uvloop: its fastest."""
    app = Starlette(routes=[Route("/svc-status", status)])
    fastest = {"http": "httptools", "loop": "uvloop"}
    # a starved generator must not find its connections closed
    uvicorn.run(app, port=int(sys.argv[1]), timeout_keep_alive=120, **fastest)


if __name__ == "__main__":
    main()
