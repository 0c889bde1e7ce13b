"""The dashboard's session, and the ways in that members of staff set for themselves."""
