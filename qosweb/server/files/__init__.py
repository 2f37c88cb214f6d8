"""Static files: page cache, file access, sending and pacing."""
