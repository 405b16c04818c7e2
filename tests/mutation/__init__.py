"""Mutation testing: small faults are put into the code, one at a time, and the tests have to notice.

``python -m tests.mutation ROOM`` or ``make mutants``; not part of ``make test``. The code on disk stays as it is: a
child process loads the changed module in place of the right one, and runs the tests that go through the changed line.
Libraries for this change whole functions only, and leave those under a decorator alone, which the referees have many
of; and they stop at tests that start processes of their own.

Noticed in samples, with the 95 % interval: placement referee 110 of 120 (91.7 %, 85 to 95), placement bounds 87 of 90
(96.7 %, 91 to 99), microbatch referee 39 of 40 (97.5 %, 87 to 100), microbatch bounds 27 of 30 (90.0 %, 74 to 97).
Counted are mutants that change something (`equivalent`) in functions that do more than search (`rooms.SEARCHES`).
"""
