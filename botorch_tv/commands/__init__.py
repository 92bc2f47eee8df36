"""What the commands of `botorch-tv` do, apart from reading the command line and telling results."""
