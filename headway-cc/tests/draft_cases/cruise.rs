//! CRUISE: rows of the checklist.
