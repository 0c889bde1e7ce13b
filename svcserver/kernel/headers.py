"""The header fields that services, clients and game servers share; their names are lowercase."""

ACCOUNT_KEY = b"x-svc-user-api-key"
GAME_SERVER_KEY = b"x-svc-gameserver-apikey"
REQUEST_ID = b"x-svc-request-id"  # the gateway's id of each request that changes data
ATTEMPT = b"x-svc-attempt"  # 2 or more if the gateway retries that request
GATEWAY = b"x-svc-gateway"  # GATEWAY_SECRET, by which the gateway vouches for an address
MATCH = b"x-svc-match"  # the match of a launch: one match has one game server
RELAYED = b"x-svc-relayed"  # an agent passes on the request of a game server
MACHINE = b"x-svc-machine"  # a ticket of this machine's own programs (kernel/machine.py)
