"""Small inputs that have broken planners, engines and solvers, each with the answer or the refusal that is right."""
