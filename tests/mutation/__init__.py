"""Mutation testing: small faults are put into the code, one at a time, and the tests have to notice.

``python -m tests.mutation ROOM`` or ``make mutants``; not part of ``make test``. The code on disk stays as it is: a
child process loads the changed module in place of the right one, and runs the tests that go through the changed line.
Libraries for this change whole functions only, and leave those under a decorator alone, which the referees have many
of; and they stop at tests that start processes of their own.
"""
