"""Plain ASGI layers around every route, the outermost first: envelope, body guard, gate."""
