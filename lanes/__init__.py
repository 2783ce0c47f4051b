"""The rules of Fairlane: pure functions and values, nothing else.

Nothing here reads a clock, draws a random number, opens a file or imports a third party.
"""
