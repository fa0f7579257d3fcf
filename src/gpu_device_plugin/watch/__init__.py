"""L2: files and signals as asynchronous events."""
