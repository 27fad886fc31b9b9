"""`judge.py submit`: has a file judged by a site, and reports as if it had been judged here."""
