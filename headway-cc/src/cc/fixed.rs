//! The two fixed-point formats (bandwidth, gain) and the windowed filters.
