//! Brings noq 1.x under the names that `ends.rs` uses.

#[path = "ends.rs"]
pub mod ends;

/// The types of noq and the calls that differ from quinn's.
pub mod stack {
    use anyhow::{Context, Result};
    pub use headway_cc::quic::sim::noq::net::{AHEAD_BYTES, LEAST_QUIC_BYTES, NAME, Setup, UNSENT_BYTES};
    pub use headway_cc::quic::sim::noq::own;
    use noq::PathId;
    pub use noq::congestion::ControllerFactory;
    pub use noq::{Connection, Endpoint, RecvStream, SendStream, TokioRuntime};
    use std::time::Duration;

    /// The congestion window in bytes, the smoothed RTT, the packets that were declared lost, and the datagrams and
    /// bytes sent.
    pub fn path(connection: &Connection) -> (u64, Duration, u64, [u64; 2]) {
        let sent = connection.stats().udp_tx;
        connection.path_stats(PathId::ZERO).map_or(Default::default(), |path| {
            (path.cwnd, path.rtt, path.lost_packets, [sent.datagrams, sent.bytes])
        })
    }

    /// Reads a stream to its end, in whatever order the data arrives, and passes the size of each chunk to `count`.
    pub async fn read(stream: RecvStream, mut count: impl FnMut(usize)) -> Result<()> {
        let mut stream = stream.into_unordered();
        while let Some(chunk) = stream.read_chunk(usize::MAX).await.context("cannot read a stream")? {
            count(chunk.bytes.len());
        }
        Ok(())
    }
}
