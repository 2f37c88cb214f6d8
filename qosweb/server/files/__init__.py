"""Static files: page cache, file access and sending."""
