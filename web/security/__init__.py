"""What stands between the site and other people's pages: hosts, origins, tokens, headers, bounds."""
