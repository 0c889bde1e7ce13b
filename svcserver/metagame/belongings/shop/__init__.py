"""The free store: catalogue, purchase tokens, redemption."""
