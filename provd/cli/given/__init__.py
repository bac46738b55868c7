"""What is typed, read as the daemon should read it: names, paths, digests, values to the letter."""
