"""L5: options, configuration files and their precedence."""
