"""What a model means at one time: which constraints are in force, and what they promise to whom."""
