"""Where uv finds packages: where pip would.

uv reads no settings of pip's (https://docs.astral.sh/uv/pip/compatibility/), and people point pip
at mirrors, folders of wheels and certificates.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

# pip's option, uv's variable, and what uv separates several values by (pip: white space).
_VARIABLES = (
    ("index-url", "UV_DEFAULT_INDEX", ""),
    ("extra-index-url", "UV_INDEX", " "),
    ("find-links", "UV_FIND_LINKS", ","),
    ("constraint", "UV_CONSTRAINT", " "),
    ("no-index", "UV_NO_INDEX", ""),
    ("trusted-host", "UV_INSECURE_HOST", " "),
    ("cert", "SSL_CERT_FILE", ""),
)


def uv_variables(pip_settings: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Translates settings of pip's into variables of uv's.

    Args:
        pip_settings: what `pip config list` prints: `global.index-url='https://...'` and so on.
        environment: what is set already, which stays.

    Returns:
        The variables to set. Where pip has no settings there are none.
    """
    sections: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in pip_settings.splitlines():
        name, separator, value = line.partition("=")
        section, _, option = name.rpartition(".")
        if separator and section in sections:
            sections[section][option] = str(ast.literal_eval(value))
    settings = sections["global"] | sections["install"] | sections[":env:"]
    if "find-links" in settings:
        # A folder that is not there is an error to uv, and a warning to pip.
        places = settings["find-links"].split()
        settings["find-links"] = " ".join(
            place for place in places if "://" in place or Path(place).exists()
        )
    found = {
        variable: separator.join(settings[option].split()) if separator else settings[option]
        for option, variable, separator in _VARIABLES
        if settings.get(option)
    }
    if found:
        found["UV_INDEX_STRATEGY"] = "unsafe-best-match"  # all indexes are looked at, as by pip
    return {variable: value for variable, value in found.items() if variable not in environment}


def read_pip_settings() -> str:
    """Runs `pip config list`; of a pip that fails, nothing is known."""
    words = [sys.executable, "-m", "pip", "config", "list"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout
