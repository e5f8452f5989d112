//! ROUND: rows of the checklist.
