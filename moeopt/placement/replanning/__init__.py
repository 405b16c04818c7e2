"""Re-planning: from the plan that runs now to a better one, for few moves."""
