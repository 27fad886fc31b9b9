"""From a submission in the store to its verdict in the store: who judges what, when, and what happens when one dies."""
