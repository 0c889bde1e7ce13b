"""The names of header fields that services, clients and game servers share, in lower case."""

from __future__ import annotations

ACCOUNT_KEY = b"x-svc-user-api-key"
GAME_SERVER_KEY = b"x-svc-gameserver-apikey"
REQUEST_ID = b"x-svc-request-id"  # the gateway's, of each request that changes something
ATTEMPT = b"x-svc-attempt"  # 2 or more where the gateway sends that request again
GATEWAY = b"x-svc-gateway"  # GATEWAY_SECRET, by which the gateway vouches for an address
MATCH = b"x-svc-match"  # whose launch it is: one match has one game server
MACHINE = b"x-svc-machine"  # a ticket of this machine's own programs (kernel/machine.py)
