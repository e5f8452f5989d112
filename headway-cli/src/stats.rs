//! Estimates, intervals, verdicts.
