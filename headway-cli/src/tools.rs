//! Runs and parses iperf3 and ping; the only place that knows their formats.
