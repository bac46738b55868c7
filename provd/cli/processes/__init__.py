"""Processes from outside: the daemon, whoever holds its lock, and those that a command starts."""
