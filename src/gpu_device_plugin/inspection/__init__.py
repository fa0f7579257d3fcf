"""Looks at what a node has and would have: the logic behind ``gpu-node``.

For CDI: `preview` makes the specifications that the plugin would write, `check` finds what is
wrong with specification files, `catalogue` lists their devices as container runtimes see them,
`difference` compares two specifications. For labels: `labels_report` tells where each is from,
`labels_text` shows it. `topology` and `completion` are packages of their own. Nothing here writes
to a terminal.
"""
