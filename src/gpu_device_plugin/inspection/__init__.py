"""L2: looks at what a node has and would have: the logic behind ``gpu-node``.

For CDI: `preview` makes the specifications that the plugin would write, `check` finds what is
wrong with specification files, `catalogue` lists their devices as container runtimes see them,
`difference` compares two specifications. Nothing here writes to a terminal.
"""
