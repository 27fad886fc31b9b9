"""The site's code editor: its sources, and what bundles them."""
