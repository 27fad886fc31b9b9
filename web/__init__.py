"""The site that `judge.py serve` starts: problems to read, an editor beside them, and what the judge found."""
