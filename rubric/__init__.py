"""From a pytest JSON report and reviews to evidence, feedback and a gradebook. Never runs student code."""
