"""Who may ask for what: the checks that every request passes before the application sees it (web/security/guard.py).

The site runs submissions as whoever started it, and it has no accounts yet. So it listens on loopback alone, and what
is left to fear is a page of another site, open in the same browser: it can send requests here, but it can neither give
them a Host of ours (DNS rebinding has its own name in it), nor an Origin of ours, nor a header of its own choice.
"""
