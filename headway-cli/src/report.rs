//! Raw folder → results.csv, table, report.html.
