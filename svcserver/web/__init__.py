"""The front door: rows, the mount, the site; everything handlers see of HTTP."""
