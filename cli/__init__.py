"""The `fairlane` command."""
