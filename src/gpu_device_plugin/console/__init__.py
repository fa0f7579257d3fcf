"""What commands print: colours, tables, data, pictures that change."""
