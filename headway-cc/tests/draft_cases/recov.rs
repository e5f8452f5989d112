//! RECOV: rows of the checklist.
