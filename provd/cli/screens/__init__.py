"""What is drawn for a terminal: an entry's life, the log in columns and as it comes."""
