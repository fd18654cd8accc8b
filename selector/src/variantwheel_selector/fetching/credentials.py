"""User names and passwords for hosts: from URLs, from netrc, and from the program `keyring`."""

from __future__ import annotations

import base64
import contextlib
import itertools
import netrc
import os
import shutil
import subprocess
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from variantwheel_selector.fetching.urls import Login, Origin, origin

_KEYRING_SECONDS = 30.0

_Place = tuple[Origin, tuple[str, ...]]
"""An origin, and the folders of a path on it."""


@dataclass
class Credentials:
    """What is known about logins; each is sent to its own origin alone.

    Attributes:
        environment: Tells where netrc lies.
        by_place: Logins from URLs and variables that the user configured.
        keyring: Whether the program `keyring` may be asked.
        indexes: The URLs of indexes, without logins: keyrings know logins by them.
    """

    environment: Mapping[str, str]
    by_place: dict[_Place, Login] = field(default_factory=dict)
    keyring: bool = False
    indexes: list[str] = field(default_factory=list)
    _netrc: netrc.netrc | None = field(default=None, repr=False)
    _netrc_read: bool = False

    def remember(self, url: str, login: Login | None) -> None:
        """Keep a login for a URL, and for its origin where no other one is nearer."""
        if login is not None:
            self.by_place.setdefault((origin(url), _folders(url)), login)

    def header(self, url: str, own: Login | None = None, *, refused: bool = False) -> str | None:
        """Return the value of `Authorization` for a URL, or none.

        Args:
            url: Without user and password.
            own: The login of this request alone, if nothing else is known for its origin.
            refused: Whether the server has already answered that it wants another login.
        """
        place = self._nearest(url)
        known = None if place is None else self.by_place[place]
        login = known or own
        if login is None or login.password is None:
            login = self._from_netrc(origin(url).host, login) or login
        if refused and login is not None and self.keyring:
            password = self._from_keyring(url, login.user)
            if password is not None:
                login = Login(login.user, password)
                if known is not None or own is None:
                    self.by_place[place or (origin(url), ())] = login
        if login is None or (not login.user and not login.password):
            return None
        pair = f"{login.user}:{login.password or ''}".encode()
        return f"Basic {base64.b64encode(pair).decode('ascii')}"

    def _nearest(self, url: str) -> _Place | None:
        """Return the place of a login that has most folders in common with a URL, as pip does.

        Indexes of one host may want different logins, and their files need not lie below their
        pages. Of places that are equally near, one above the URL comes first, then the first one.
        """
        here = [place for place in self.by_place if place[0] == origin(url)]
        return max(here, key=lambda place: _nearness(place[1], _folders(url)), default=None)

    def _from_netrc(self, host: str, known: Login | None) -> Login | None:
        if not self._netrc_read:
            self._netrc = self._read_netrc()
            self._netrc_read = True
        found = self._netrc.authenticators(host) if self._netrc is not None else None
        if found is None or (known is not None and found[0] != known.user):
            return None
        return Login(found[0] or found[1] or "", found[2])

    def _read_netrc(self) -> netrc.netrc | None:
        """Read netrc as requests does: what cannot be read counts as absent."""
        home = self.environment.get("HOME")
        stated = self.environment.get("NETRC")
        candidates = [Path(stated)] if stated else []
        if not stated and home:
            candidates = [Path(home, ".netrc"), Path(home, "_netrc")]
        for path in candidates:
            with contextlib.suppress(OSError, netrc.NetrcParseError, UnicodeDecodeError):
                return netrc.netrc(os.fspath(path))
        return None

    def _from_keyring(self, url: str, user: str) -> str | None:
        """Ask the program `keyring`; its answer and its errors are never shown."""
        program = shutil.which("keyring", path=self.environment.get("PATH"))
        if program is None:
            return None
        for service in self._services(url):
            try:
                done = subprocess.run(
                    [program, "get", service, user],
                    check=False,
                    env={**self.environment, "PYTHONIOENCODING": "utf-8"},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    timeout=_KEYRING_SECONDS,
                )
            except (OSError, subprocess.TimeoutExpired):
                return None
            answer = done.stdout.decode("utf-8", errors="replace").rstrip("\r\n")
            if done.returncode == 0 and answer:
                return answer
        return None

    def _services(self, url: str) -> list[str]:
        """Return the names that a keyring may know a URL's login by, likeliest first.

        pip asks for the nearest index's URL with one slash at its end, uv for the URL as it is
        configured, both then for the host with its port, and uv for that with the scheme.
        """
        here = [index for index in self.indexes if origin(index) == origin(url)]
        index = max(here, key=lambda each: _nearness(_folders(each), _folders(url)), default=None)
        names = [] if index is None else [f"{index.rstrip('/')}/", index]
        parts = urllib.parse.urlsplit(url)
        names += [parts.netloc, f"{parts.scheme}://{parts.netloc}", url, origin(url).host]
        return list(dict.fromkeys(names))


def _nearness(place: Sequence[str], folders: Sequence[str]) -> tuple[int, bool]:
    """Return how many folders a place has in common with a URL, and whether it is above the URL."""
    pairs = zip(place, folders, strict=False)
    common = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    return common, common == len(place)


def _folders(url: str) -> tuple[str, ...]:
    path = urllib.parse.unquote(urllib.parse.urlsplit(url).path)
    return tuple(part for part in path.split("/") if part)
