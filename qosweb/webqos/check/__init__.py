"""What is wrong with a specification beyond its words: rules that contradict, never hold, or surprise."""
