//! STARTUP: rows of the checklist.
