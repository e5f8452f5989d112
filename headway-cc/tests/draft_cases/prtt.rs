//! PRTT: rows of the checklist.
