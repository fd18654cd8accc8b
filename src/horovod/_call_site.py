"""Where the user's program is, for messages about it."""

import sys
import warnings
from pathlib import Path
from types import FrameType

_OWN = str(Path(__file__).parent) + "/"


def call_site() -> str:
    """The innermost line on this thread's stack that is the user's: "train.py:42".

    The text can always be encoded: of a path that is not UTF-8, other bytes are escaped.

    PyTorch calls us where a user calls it, or where we do: as in the functions that have gradients.
    """
    frame, _ = _users_frame()
    path = frame.f_code.co_filename.encode(errors="backslashreplace").decode()
    return f"{path}:{frame.f_lineno}"


def warn_at_call_site(text: str) -> None:
    """Warns of what that line does."""
    _, depth = _users_frame()
    warnings.warn(text, stacklevel=depth)


def _users_frame() -> tuple[FrameType, int]:
    """That line's frame, and how deep it is below the function that asks, which is 1."""
    # Looked up, since this package is used without PyTorch too.
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    passed = (_OWN,) if torch is None else (_OWN, torch.removesuffix("__init__.py"))
    frame, depth = sys._getframe(1), 1  # noqa: SLF001 - the only cheap way to the caller's line
    while frame.f_back is not None and frame.f_code.co_filename.startswith(passed):
        frame, depth = frame.f_back, depth + 1
    return frame, depth
