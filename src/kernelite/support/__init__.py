"""Small things that every room may use: files and folders, progress, text for terminals."""
