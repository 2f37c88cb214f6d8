"""HTTP semantics: a test for each sentence of the RFCs that the server relies on."""
