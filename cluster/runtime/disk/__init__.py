"""The store of a member: SQLite, its transactions and its checks."""
