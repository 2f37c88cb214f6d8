"""Results of a run: counts, histograms, summaries and assertions."""
