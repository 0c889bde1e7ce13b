"""The rules for replacing a list of breadcrumbs. Spec: 1 §4 POST /breadcrumbs."""

from svcserver.kernel.digits import MAX_VERSION
from svcserver.kernel.refusals import Conflict, Malformed


def check_size(size: int, most: int) -> None:
    """Raise Malformed if ``size``, in bytes, is more than ``most``."""
    if size > most:
        raise Malformed("the list of breadcrumbs is too large")


def check(stored: int | None, version: int) -> None:
    """Raise Conflict if the version does not increase or exceeds MAX_VERSION.

    The first save may have any version up to MAX_VERSION. Once the stored version is MAX_VERSION,
    the next save may again have any version.
    """
    if stored is not None and version <= stored < MAX_VERSION:
        raise Conflict("this version of the breadcrumbs or a newer one is stored")
    if version > MAX_VERSION:
        raise Conflict("this version is too high: no higher version would be possible")
