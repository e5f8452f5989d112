//! PACE: rows of the checklist.
