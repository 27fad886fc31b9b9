"""The site: pages, JSON API, store and queue around the judge. Started by `judge.py serve`."""
