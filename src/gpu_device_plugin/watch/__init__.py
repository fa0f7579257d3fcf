"""Files and signals as asynchronous events."""
