"""An engine in virtual time, stepped by the same decision as the real one (`lanes.step`)."""
