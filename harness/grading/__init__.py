"""`judge.py grade`: many files, each of which must get what it declares.

    PATH ... -> discovery.py  -> Entry (a file, its problem, its declaration: declaration.py)
                                 files.py: which files may be opened at all
                workers.py    -> the entries, a few at a time, each judged in a process of its own (judging.py)
                                 -> Graded (graded.py): what came, and why that is a surprise
                session.py    -> Session: all of them, the exit code
                                 -> table.py, markdown.py, record.py (JSON), harness/report/junit.py
"""
