"""Bytes for what reads bytes: see __main__."""
