//! MINRTT: rows of the checklist.
