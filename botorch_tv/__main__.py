"""`python -m botorch_tv` is the command `botorch-tv`."""

from botorch_tv.cli.command import main

raise SystemExit(main())
