"""Runs the server and its page in this process."""

import socket

import uvicorn
from starlette.types import ASGIApp

from ddlp.cli.own_key import keep_key_file
from ddlp.core import logs
from ddlp.core.errors import Unavailable
from ddlp.core.private import make_home
from ddlp.core.settings import Settings
from ddlp.server.accepting import Listener
from ddlp.server.app import open_context
from ddlp.server.connections import bounded_protocol
from ddlp.server.roots import check_settings
from ddlp.server.security import check_listen
from ddlp.web.app import create_app

_GRACE_S = 2


class PortTaken(Unavailable):
    """The port cannot be listened on."""


def run_server(settings: Settings, *, checked: bool = False) -> None:
    """Say where, and serve until told to stop.

    `ddlp up` has checked the folders of the settings when it was started; a server that it starts
    again must not stay away because one of them is missing meanwhile.
    """
    logs.configure(settings.log_format)
    check_listen(settings)
    if not checked:
        check_settings(settings)
    make_home(settings.home)
    listener = listen(settings.host, settings.port)
    here = settings.model_copy(update={"url": None, "port": listener.getsockname()[1]})
    context = open_context(here)
    if settings.keys == "required" and settings.key_file is not None:
        keep_key_file(context.database, settings.key_file)
    server = uvicorn.Server(config_of(settings, create_app(context)))
    context.ownership.tell_when_lost(lambda: setattr(server, "should_exit", True))
    print(f"DDLP serves {here.server_url}", flush=True)
    server.run(sockets=[listener])
    if context.ownership.lost is not None:
        raise context.ownership.lost


def config_of(settings: Settings, app: ASGIApp) -> uvicorn.Config:
    """How an application is served."""
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        timeout_graceful_shutdown=_GRACE_S,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies,
        http=bounded_protocol(settings),
        ws="none",
        loop="ddlp.server.accepting:PatientLoop",
    )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, or a clear word about why there is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = Listener(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise PortTaken(
            f"port {port} of {host} cannot be used ({error.strerror}); "
            "choose another with --port or DDLP_PORT, 0 takes a free one"
        ) from error
    return listener
