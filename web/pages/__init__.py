"""The pages for people, one file a subject."""
