"""`python -m variantwheel_selector`, the same as the command `variantwheel`."""

from variantwheel_selector.cli import run_commandline

if __name__ == "__main__":
    raise SystemExit(run_commandline())
