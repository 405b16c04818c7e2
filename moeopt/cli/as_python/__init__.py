"""A command as the Python that it is: files that are read, the instance, one call, and what is written."""
