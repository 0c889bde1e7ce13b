"""A helper that starts a service as ``twistd`` does: first the ports, then the parts."""

from twisted.application.service import IService


def start(service: IService) -> None:
    """Bind the service's ports, then start its parts."""
    service.privilegedStartService()
    service.startService()
