"""The command `botorch-tv`."""

from botorch_tv.cli.command import main as main
