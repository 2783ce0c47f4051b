"""What Redis holds: hints that may be lost at any moment."""
