"""Long runs of what a test does once: for rare defects, by hand and not in the test suite."""
