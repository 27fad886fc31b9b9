"""What the site keeps: submissions, their judgings, case results, findings and the events of each judging.

The store is the truth. A submission is acknowledged after its commit, a verdict counts once it is committed, and what
is neither finished nor cancelled when a site starts is judged then (web/queue).
"""
