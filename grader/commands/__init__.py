"""What each command does, from its arguments to its exit code. Here alone grading and rubric meet."""
