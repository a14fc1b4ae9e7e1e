"""The grader: from a submission to `report.json`. It knows nothing about points."""
