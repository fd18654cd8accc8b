"""Real web servers, and one that answers as object storage does, for a site on loopback."""

from __future__ import annotations

import functools
import http.server
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

START_TIMEOUT = 30

# Shown in docs/maintainers-guide.md; a test compares.
NGINX_LOCATION = """\
location /simple/ {
    root /srv/site;
    index index.html;
    types {
        text/html html;
        application/vnd.pypi.simple.v1+json json;
    }
    default_type application/octet-stream;
    # Installers that ask for JSON first get it (PEP 691).
    if ($http_accept ~ "^application/vnd\\.pypi\\.simple\\.v1\\+json") {
        rewrite ^(.*)/$ $1/index.json last;
    }
}
"""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _process(command: list[str], port: int, log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, log.read_text(encoding="utf-8")
                assert time.monotonic() < deadline, f"{command[0]} does not answer"
                time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(timeout=START_TIMEOUT)


@contextmanager
def nginx(site: Path, work: Path, *, location: str) -> Iterator[str]:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        pytest.skip("nginx is not installed")
    port = _free_port()
    places = "".join(
        f"{name}_temp_path {work / name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (work / "nginx.conf").write_text(
        f"user root; daemon off; pid {work / 'pid'}; error_log stderr;\nevents {{}}\n"
        f"http {{\naccess_log {work / 'access.log'};\n{places}"
        f"server {{\nlisten 127.0.0.1:{port};\n{location.replace('/srv/site', str(site))}}}\n}}\n",
        encoding="utf-8",
    )
    command = [program, "-e", "stderr", "-c", str(work / "nginx.conf"), "-p", str(work)]
    with _process(command, port, work / "log"):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def pypiserver(folder: Path, work: Path) -> Iterator[str]:
    port = _free_port()
    program = str(Path(sys.executable).with_name("pypi-server"))
    command = [
        program,
        "run",
        "-i",
        "127.0.0.1",
        "-p",
        str(port),
        "--disable-fallback",
        str(folder),
    ]
    with _process(command, port, work / "log"):
        yield f"http://127.0.0.1:{port}"


class _ObjectHandler(http.server.SimpleHTTPRequestHandler):
    """Knows objects by their whole names, and no folders."""

    def do_GET(self) -> None:
        if Path(self.translate_path(self.path)).is_file():
            super().do_GET()
        else:
            self.send_error(404, "NoSuchKey")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base
        pass


@contextmanager
def object_storage(site: Path) -> Iterator[str]:
    handler = functools.partial(_ObjectHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
