"""Every kind of file that is read, damaged in every way: ``python -m tests.fuzz`` for long, a few seeds in tests."""
