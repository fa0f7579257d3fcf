"""A small HTTP/1.1 server: answers GET on a few paths, within strict limits."""
