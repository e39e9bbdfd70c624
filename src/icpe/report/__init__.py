"""Pictures and pages that show what a log or a model looks like."""
