"""The objects of the wire, as clients send and read them."""
