def compare(*a): return False
def probe(*a): return False
