"""Options, configuration files and their precedence."""
