//! REFILL: rows of the checklist.
