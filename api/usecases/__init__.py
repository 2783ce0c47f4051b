"""What the API can do, apart from HTTP."""
