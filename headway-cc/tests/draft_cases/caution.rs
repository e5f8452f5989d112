//! CAUTION: rows of the checklist.
