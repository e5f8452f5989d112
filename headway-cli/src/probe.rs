//! Latency prober: ICMP echo on a fixed schedule.
