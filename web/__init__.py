"""The site: problems to read, an editor beside them, and what the judge found, in a browser."""
