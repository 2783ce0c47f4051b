"""One function a call: parse, do, render."""
