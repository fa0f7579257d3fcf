"""``gpu-node doctor``: looks at a node and says what is wrong with it.

`catalogue` has all checks, `run` makes them, `text` and `document` show what came out. The checks
see the machine as a `host`; the modules with them are named after what they look at.
"""
