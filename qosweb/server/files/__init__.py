"""Static files: page cache, reading, sending and pacing."""
