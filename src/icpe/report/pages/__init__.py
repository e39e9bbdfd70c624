"""One module for each kind of page: single runs, comparisons of methods, and audits."""
