"""Long test campaigns for rare defects: started by hand, not part of the test suite."""
