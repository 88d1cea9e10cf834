"""What becomes of each range of whole units, as a value that prints itself before it runs."""
