"""The commands of the language: check, explain, fmt, shares. They read files and write for people or scripts."""
