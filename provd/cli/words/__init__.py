"""What the command line says: verdicts, records, gaps, causes, next steps, as lines of text."""
