"""The second baseline of reads: uvicorn and Starlette with one JSON route and an access log."""

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

BODY = {"show-status": True, "text": "x" * 360}


async def status(request: Request) -> JSONResponse:
    """Return the constant reply."""
    return JSONResponse(BODY)


def main() -> None:
    """Serve on the port in the first argument, with uvicorn's fastest options."""
    app = Starlette(routes=[Route("/svc-status", status)])
    fastest = {"http": "httptools", "loop": "uvloop"}
    # a starved generator must not find its connections closed
    uvicorn.run(app, port=int(sys.argv[1]), timeout_keep_alive=120, **fastest)


if __name__ == "__main__":
    main()
