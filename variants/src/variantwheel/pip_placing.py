"""How pip is made to install what it is told, into the environment that it is told."""

from __future__ import annotations

from collections.abc import Mapping

_MORE_OR_ELSEWHERE = frozenset(
    ("target", "prefix", "root", "requirement", "editable", "group", "requirements-from-script")
)
_OFF = ("user", "dry-run", "require-hashes")
ADVICE = (
    "pip's settings send packages elsewhere, or leave them out; `pip config list` shows them, and "
    "PIP_CONFIG_FILE names others"
)


def placing_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables under which pip installs what its command line says, where that says.

    Other settings of pip's, such as indexes, constraints and certificates, stay as they are.

    Args:
        environ: Those of this process.
    """
    kept = {name: value for name, value in environ.items() if not _misleads(name)}
    # Stated, because pip puts variables above its files, which may say otherwise.
    return kept | {f"PIP_{option.upper().replace('-', '_')}": "0" for option in _OFF}


def _misleads(variable: str) -> bool:
    # As pip reads the names of variables.
    option = variable[4:].lower().replace("_", "-")
    return variable.startswith("PIP_") and (option in _MORE_OR_ELSEWHERE or option in _OFF)
