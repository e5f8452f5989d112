//! IDLE: rows of the checklist.
