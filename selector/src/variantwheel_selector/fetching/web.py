"""HTTP as package installers are configured for it: proxies, certificates, logins, redirections.

Redirections are followed here and not by `urllib`, because a login belongs to one origin, and trust
without a certificate to one host.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from email.message import Message
from pathlib import Path
from typing import BinaryIO, NoReturn, Protocol

from variantwheel_selector.bounded_read import open_regular
from variantwheel_selector.errors import DownloadError, TemporaryDownloadError
from variantwheel_selector.fetching.access import WebAccess
from variantwheel_selector.fetching.credentials import Credentials
from variantwheel_selector.fetching.proxies import ProxyHandler, goes_direct, proxy_urls
from variantwheel_selector.fetching.retry_after import retry_after
from variantwheel_selector.fetching.urls import Login, origin, quoted, redacted, split_login

_REDIRECTIONS = (301, 302, 303, 307, 308)
_MOST_REDIRECTIONS = 10
# 416: what was to be continued is another file now.
_PASSING = (408, 416, 429, 500, 502, 503, 504, 520, 524)
_PROXYS_OWN = (407, 502, 503, 504)
"""What may be a proxy's own answer to https, which it else passes on unread."""
_SCHEMES = ("http", "https")

NETWORK_ERRORS = (OSError, http.client.HTTPException)
"""What a server or connection may fail with, besides `DownloadError`."""

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.25, 4.0
"""Between attempts; each pause is twice the one before, or what a server asks for."""


class Response(Protocol):
    """The part of `http.client.HTTPResponse` that is used."""

    status: int

    @property
    def headers(self) -> Message:
        """The header fields."""

    def read(self, size: int = -1) -> bytes:
        """Return some bytes, none at the end."""

    def geturl(self) -> str:
        """Return the URL that answered."""


def stated_length(response: Response) -> int | None:
    """Return how many bytes a server says that it sends, or none if it does not say."""
    text = response.headers.get("Content-Length", "")
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


class WebClient:
    """Opens URLs; one for a run."""

    def __init__(self, access: WebAccess, credentials: Credentials) -> None:
        self.access = access
        self._credentials = credentials
        self._openers: dict[tuple[str, bool], urllib.request.OpenerDirector] = {}

    def login(self, url: str) -> str:
        """Keep the login that a configured URL holds, and return the URL without it."""
        bare, login = split_login(url)
        self._credentials.remember(bare, login)
        return bare

    def keep_index(self, url: str) -> None:
        """Keep the URL of an index, by which a keyring may know the login for its pages."""
        self._credentials.indexes.append(split_login(url)[0])

    @contextlib.contextmanager
    def open(self, url: str, headers: Mapping[str, str]) -> Iterator[Response]:
        """Open a URL, following redirections.

        Args:
            url: May hold a login, as may what it redirects to; it serves this request alone. A page
                could else give one for an origin that the user has another one for.
            headers: Sent wherever the redirections lead.

        Raises:
            DownloadError: The answer is not 200 or 206, or nobody answers.
        """
        url, login = split_login(url)
        logins = {} if login is None else {origin(url): login}
        asked = url
        refused = False
        if origin(url).scheme == "file":
            with _open_file(url) as file:
                yield file
            return
        for _ in range(_MOST_REDIRECTIONS):
            if origin(url).scheme not in _SCHEMES:
                raise DownloadError(f"cannot read {redacted(url)}: neither http nor https")
            try:
                login = logins.get(origin(url))
                response = self._send(url, headers, login, refused=refused)
            except urllib.error.HTTPError as error:
                with error:
                    if error.code in _REDIRECTIONS and error.headers.get("Location"):
                        target = self._target(url, error.headers["Location"])
                        (url, login), refused = split_login(target), False
                        if login is not None:
                            logins.setdefault(origin(url), login)
                        continue
                    if error.code == 401 and not refused:
                        refused = True
                        continue
                _fail(asked, error, self._proxy(url, error))
            except (*NETWORK_ERRORS, ValueError) as error:
                _fail(asked, error, self._proxy(url, error))
            with contextlib.closing(response):
                yield response
            return
        raise DownloadError(f"cannot read {redacted(asked)}: too many redirections")

    def _target(self, url: str, location: str) -> str:
        """Return where a redirection leads."""
        try:
            # Header fields are read as Latin-1; what servers write is UTF-8.
            location = location.encode("latin-1").decode("utf-8")
            target = urllib.parse.urljoin(url, location)
        except ValueError as error:
            raise DownloadError(f"{redacted(url)} redirects to what is no URL") from error
        if origin(url).scheme == "https" and origin(target).scheme != "https":
            raise DownloadError(
                f"{redacted(url)} redirects to {redacted(target)}, which is not encrypted"
            )
        return target

    def _send(
        self, url: str, headers: Mapping[str, str], login: Login | None, *, refused: bool
    ) -> http.client.HTTPResponse:
        request = urllib.request.Request(quoted(url), headers=dict(headers))  # noqa: S310 - checked
        request.add_header("User-Agent", "variantwheel-selector")
        # The bytes themselves are hashed: nobody may pack or convert them on the way.
        request.add_header("Accept-Encoding", "identity")
        authorization = self._credentials.header(url, login, refused=refused)
        if authorization is not None:
            request.add_unredirected_header("Authorization", authorization)
        opener = self._opener(origin(url).scheme, self._is_trusted(url))
        response: http.client.HTTPResponse = opener.open(request, timeout=self.access.timeout)
        return response

    def _proxy(self, url: str, error: Exception) -> str | None:
        """Return the proxy that a URL was asked through, if that may be what failed or refused."""
        place = urllib.parse.urlsplit(url)
        proxy = proxy_urls(self.access.proxy).get(place.scheme)
        if proxy is None or goes_direct(place.netloc):
            return None
        if isinstance(error, urllib.error.HTTPError) and place.scheme == "https":
            return proxy if error.code in _PROXYS_OWN else None
        return proxy

    def _is_trusted(self, url: str) -> bool:
        place = origin(url)
        names = {place.host, f"{place.host}:{place.port}"}
        return any(host.lower() in names for host in self.access.trusted_hosts)

    def _opener(self, scheme: str, trusted: bool) -> urllib.request.OpenerDirector:  # noqa: FBT001
        if (scheme, trusted) not in self._openers:
            opener = urllib.request.OpenerDirector()
            opener.add_handler(ProxyHandler(proxy_urls(self.access.proxy)))
            opener.add_handler(urllib.request.HTTPHandler())
            if scheme == "https":
                context = _tls_context(self.access, trusted=trusted)
                opener.add_handler(urllib.request.HTTPSHandler(context=context))
            opener.add_handler(urllib.request.HTTPDefaultErrorHandler())
            opener.add_handler(urllib.request.HTTPErrorProcessor())
            self._openers[scheme, trusted] = opener
        return self._openers[scheme, trusted]


class _LocalFile:
    """A file of this machine as a response."""

    status = 200

    def __init__(self, file: BinaryIO, url: str) -> None:
        self.headers = Message()
        self._file = file
        self._url = url

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def geturl(self) -> str:
        return self._url


@contextlib.contextmanager
def _open_file(url: str) -> Iterator[_LocalFile]:
    """Open a `file:` URL; of a folder, its page, as a web server does."""
    path = Path(urllib.request.url2pathname(urllib.parse.urlsplit(url).path))
    try:
        if path.is_dir():
            path, url = path / "index.html", f"{url.rstrip('/')}/index.html"
        file = open_regular(path)
    except OSError as error:
        raise DownloadError(f"cannot read {url}: {error.strerror}") from error
    with file:
        yield _LocalFile(file, url)


def _tls_context(access: WebAccess, *, trusted: bool) -> ssl.SSLContext:
    try:
        bundle = access.certificate
        is_folder = bundle is not None and Path(bundle).is_dir()
        context = ssl.create_default_context(
            cafile=None if is_folder else bundle, capath=bundle if is_folder else None
        )
        if access.client_certificate is not None:
            context.load_cert_chain(access.client_certificate)
    except OSError as error:  # an SSLError is one
        raise DownloadError(
            f"cannot use the certificates {access.certificate or access.client_certificate!r}: "
            f"{error.strerror or error}"
        ) from error
    if trusted:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def may_answer(error: TemporaryDownloadError) -> bool:
    """Tell whether a server was met that was busy or broke off, and may answer next time."""
    busy = (urllib.error.HTTPError, ConnectionError, http.client.IncompleteRead, type(None))
    return isinstance(error.__cause__, busy)


def _fail(url: str, error: Exception, proxy: str | None) -> NoReturn:
    if isinstance(error, urllib.error.HTTPError):
        words = f"the server says {error.code} {error.reason}"
        if error.code in (401, 403):
            words += (
                "; a login may stand in the index's URL, in netrc, or in keyring with its user name"
                " in the URL"
            )
    elif isinstance(error, urllib.error.URLError):
        words = str(error.reason)
    elif isinstance(error, http.client.BadStatusLine) and not isinstance(error, ConnectionError):
        words = f"the server does not speak HTTP: it answers {str(error).strip()[:80]!r}"
    else:
        words = str(error) or type(error).__name__
    later = retry_after(error)
    if later:
        words += f"; it wants to be asked later (Retry-After: {later})"
    if proxy is not None:
        words += f"; it was asked through the proxy {redacted(proxy)}"
    final = isinstance(error, urllib.error.HTTPError) and error.code not in _PASSING and not later
    kind = DownloadError if final else TemporaryDownloadError
    raise kind(f"cannot read {redacted(url)}: {words}") from error
