"""The labels of a node: what they are made from, how they are made, where they go."""
