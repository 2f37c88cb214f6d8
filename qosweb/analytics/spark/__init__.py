"""The Spark session and the Java runtime that it needs."""
