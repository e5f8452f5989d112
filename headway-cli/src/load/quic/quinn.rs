//! Brings quinn 0.11 under the names that `ends.rs` uses.

#[path = "ends.rs"]
pub mod ends;

/// The types of quinn and the calls that differ from noq's.
pub mod stack {
    use anyhow::{Context, Result};
    pub use headway_cc::quic::sim::quinn::net::{AHEAD_BYTES, LEAST_QUIC_BYTES, NAME, Setup, UNSENT_BYTES};
    pub use headway_cc::quic::sim::quinn::own;
    pub use quinn::congestion::ControllerFactory;
    pub use quinn::{Connection, Endpoint, RecvStream, SendStream, TokioRuntime};
    use std::time::Duration;

    /// The congestion window in bytes, the smoothed RTT, the packets that were declared lost, and the datagrams and
    /// bytes sent.
    pub fn path(connection: &Connection) -> (u64, Duration, u64, [u64; 2]) {
        let stats = connection.stats();
        let (path, sent) = (stats.path, stats.udp_tx);
        (path.cwnd, path.rtt, path.lost_packets, [sent.datagrams, sent.bytes])
    }

    /// Reads a stream to its end, in whatever order the data arrives, and passes the size of each chunk to `count`.
    pub async fn read(mut stream: RecvStream, mut count: impl FnMut(usize)) -> Result<()> {
        while let Some(chunk) = stream.read_chunk(usize::MAX, false).await.context("cannot read a stream")? {
            count(chunk.bytes.len());
        }
        Ok(())
    }
}
