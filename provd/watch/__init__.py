"""The watchers: what changes in the roots, told as notices. They write nothing and know nothing of the log."""
