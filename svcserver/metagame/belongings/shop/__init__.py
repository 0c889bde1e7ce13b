"""The store, where all is free: its offers, and tokens that redeem one."""
