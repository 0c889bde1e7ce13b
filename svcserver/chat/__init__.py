"""Text chat: XMPP over WebSocket, hosted by the metagame."""
