"""How the GPUs of a node are linked, which set the plugin prefers, and how both are shown.

`read` surveys the node, `choice` asks for the set that the plugin prefers; `text`, `matrix`, `data`
and `svg` show both.
"""
