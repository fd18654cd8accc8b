"""What a rank says to whoever runs the job."""

import pytest

from horovod import _standard_error


@pytest.mark.parametrize(
    ("level", "said"),
    [("", "x\n"), ("warning", "x\n"), ("debug", "x\n"), ("error", ""), ("fatal", "")],
)
def test_warnings_are_left_out_where_only_errors_are_wanted(
    level: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOROVOD_LOG_LEVEL", level)
    _standard_error.warn("x")
    assert capsys.readouterr().err == said


def test_a_standard_error_that_is_closed_is_no_reason_to_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stderr", None)
    _standard_error.say("x")
