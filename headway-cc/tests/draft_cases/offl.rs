//! OFFL: rows of the checklist.
