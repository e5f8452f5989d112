//! Checks that a stack's qlog has the window and the pacing rate that a controller of ours decided.

use crate::trace::Trace;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// Where both ends of a connection write.
#[derive(Clone)]
struct Sink(&'static Mutex<Vec<u8>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The values of a metric, wherever an event has it.
fn values(log: &[u8], name: &str) -> BTreeSet<u64> {
    let text = String::from_utf8_lossy(log);
    // In JSON-SEQ each record begins with a separator byte.
    let events = text.split('\u{1e}').filter_map(|record| serde_json::from_str::<Value>(record).ok());
    events.filter_map(|e| e["data"][name].as_f64()).map(|v| v as u64).collect()
}

/// The log must have a good part of the decisions in the trace. It cannot have all, because a stack writes once for
/// several of them.
fn check(trace: &Trace, log: &Mutex<Vec<u8>>, rate: impl Fn(u64) -> u64) {
    let (log, rows) = (log.lock().unwrap(), trace.rows());
    let windows: BTreeSet<u64> = rows.iter().map(|r| r.control.cwnd).collect();
    let rates: BTreeSet<u64> = rows.iter().map(|r| rate(r.control.pacing_rate)).collect();
    for (name, decided) in [("congestion_window", windows), ("pacing_rate", rates)] {
        let logged = values(&log, name);
        let known = logged.iter().filter(|v| decided.contains(v)).count();
        println!("{name}: {known} of {} logged, {} decided", logged.len(), decided.len());
        assert!(known >= 10 && known * 10 >= logged.len() * 8, "{name}");
    }
}

#[test]
fn noq_logs_what_we_decide() {
    use headway_cc::quic::sim::noq::net::{Net, Spec};
    use noq_proto::{ConnectionId, QlogConfig, QlogFactory, Side};
    static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    struct Factory;
    impl QlogFactory for Factory {
        fn for_connection(
            &self,
            side: Side,
            _: std::net::SocketAddr,
            _: ConnectionId,
            _: std::time::Instant,
        ) -> Option<QlogConfig> {
            (side == Side::Server).then(|| QlogConfig::new(Box::new(Sink(&LOG))))
        }
    }
    let (trace, factory) = Trace::of("bbr3");
    let mut spec = Spec::new("20mbit 20ms queue=2bdp", factory);
    spec.tune = |transport| _ = transport.qlog_factory(Arc::new(Factory));
    Net::new(&spec).run_until(3_000_000);
    check(&trace, &LOG, |bytes| bytes);
}

#[test]
fn quinn_logs_what_we_decide() {
    use headway_cc::quic::sim::quinn::net::{Net, Spec};
    use quinn_proto::QlogConfig;
    static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    let (trace, factory) = Trace::of("bbr3");
    let mut spec = Spec::new("20mbit 20ms queue=2bdp", factory);
    spec.tune = |transport| {
        let mut config = QlogConfig::default();
        config.writer(Box::new(Sink(&LOG)));
        transport.qlog_stream(config.into_stream());
    };
    Net::new(&spec).run_until(3_000_000);
    check(&trace, &LOG, |bytes| bytes * 8);
}
