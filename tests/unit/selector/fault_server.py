"""An HTTP server on loopback that can demand logins, break off, redirect and lie."""

from __future__ import annotations

import base64
import http.server
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Faults:
    """What the server does, and what it was asked.

    Attributes:
        folder: What it serves.
        login: `user:password` that it demands, or none.
        logins: The same for what lies below a folder.
        break_pages: The same as below for pages.
        break_after: Bytes after which it drops a connection, one entry for each time.
        ranges: Whether it continues where the client asks it to.
        weak: Whether its entity tags promise the same meaning alone, not the same bytes.
        redirect: Sent for every path that begins with `/away/`.
        replace: Bodies to send instead of files, by path.
        codings: What `Content-Encoding` says, by path; bodies are sent as they are.
        statuses: Answers by path that come first, one for each time.
        rests: By path, a status and for how many seconds from the first request on it answers with
            that, and with these seconds as `Retry-After`.
        rest_began: By path, when that was.
        requests: Path and header fields of every request.
        ranges_served: The `Range` of requests that it continued.
    """

    folder: Path
    login: str | None = None
    logins: dict[str, str] = field(default_factory=dict)
    break_pages: list[int] = field(default_factory=list)
    break_after: list[int] = field(default_factory=list)
    ranges: bool = True
    weak: bool = False
    redirect: str = ""
    replace: dict[str, bytes] = field(default_factory=dict)
    codings: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, list[int]] = field(default_factory=dict)
    rests: dict[str, tuple[int, int]] = field(default_factory=dict)
    rest_began: dict[str, float] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    ranges_served: list[str] = field(default_factory=list)

    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]

    def authorizations(self) -> set[str | None]:
        return {headers.get("Authorization") for _, headers in self.requests}


class _Handler(http.server.BaseHTTPRequestHandler):
    faults: Faults
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass

    def do_GET(self) -> None:
        faults = self.faults
        faults.requests.append((self.path, dict(self.headers.items())))
        path = self.path
        if path.startswith("http://"):  # as a proxy is asked
            path = "/" + path.split("/", 3)[3]
        if faults.statuses.get(path):
            self._answer(faults.statuses[path].pop(0), b"not now")
            return
        if path in faults.rests:
            status, seconds = faults.rests[path]
            now = time.monotonic()
            if now - faults.rest_began.setdefault(path, now) < seconds:
                self._answer(status, b"later", **{"Retry-After": str(seconds)})
                return
        if path.startswith("/away/"):
            self._answer(302, b"", Location=faults.redirect + path.removeprefix("/away/"))
            return
        login = next((it for at, it in faults.logins.items() if path.startswith(at)), faults.login)
        wanted = "Basic " + base64.b64encode((login or "").encode()).decode()
        if login is not None and self.headers.get("Authorization") != wanted:
            self._answer(401, b"who?", **{"WWW-Authenticate": 'Basic realm="x"'})
            return
        file = faults.folder / path.lstrip("/")
        if file.is_dir():
            file = file / "index.html"
        body = faults.replace.get(path)
        if body is None and not file.is_file():
            self._answer(404, b"nothing")
            return
        self._send(file.read_bytes() if body is None else body)

    def _send(self, body: bytes) -> None:
        wanted = self.headers.get("Range", "")
        begin = 0
        headers = {"ETag": f'{"W/" * self.faults.weak}"{len(body)}-{hash(body)}"'}
        if self.path in self.faults.codings:
            headers["Content-Encoding"] = self.faults.codings[self.path]
        if wanted and self.faults.ranges and self.headers.get("If-Range") == headers["ETag"]:
            begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
            headers["Content-Range"] = f"bytes {begin}-{len(body) - 1}/{len(body)}"
            self.faults.ranges_served.append(wanted)
        self.send_response(206 if begin else 200)
        kind = "text/html" if self.path.endswith("/") else "application/octet-stream"
        for name, value in (headers | {"Content-Type": kind}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) - begin))
        self.end_headers()
        rest = body[begin:]
        breaks = self.faults.break_pages if kind == "text/html" else self.faults.break_after
        if breaks:
            rest = rest[: breaks.pop(0)]
            self.close_connection = True
        self.wfile.write(rest)

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def faulty(faults: Faults, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serves while the block runs.

    Yields:
        The address, without a slash at the end.
    """
    handler = type("Handler", (_Handler,), {"faults": faults})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
