"""The commands: a module is imported when a command of it is used (`provd.cli.app` has the table)."""
