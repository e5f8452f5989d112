//! INIT: rows of the checklist.
