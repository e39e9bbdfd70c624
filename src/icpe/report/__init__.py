"""HTML pages and figures. Nothing is measured here: pages show what runs, comparisons and audits have found."""
