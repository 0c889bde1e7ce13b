"""The gateway: the only public HTTPS endpoint of a host."""
