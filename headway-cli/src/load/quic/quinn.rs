//! quinn 0.11 under the names that `ends.rs` uses.

#[path = "ends.rs"]
pub mod ends;

/// The stack.
pub mod stack {
    use anyhow::{Context, Result};
    pub use headway_cc::quic::sim::quinn::net::{AHEAD_BYTES, LEAST_QUIC_BYTES, NAME, Setup, UNSENT_BYTES};
    pub use headway_cc::quic::sim::quinn::own;
    pub use quinn::congestion::ControllerFactory;
    pub use quinn::{Connection, Endpoint, RecvStream, SendStream, TokioRuntime};
    use std::time::Duration;

    /// Window, smoothed round trip, packets declared lost; datagrams and bytes sent.
    pub fn path(connection: &Connection) -> (u64, Duration, u64, [u64; 2]) {
        let stats = connection.stats();
        let (path, sent) = (stats.path, stats.udp_tx);
        (path.cwnd, path.rtt, path.lost_packets, [sent.datagrams, sent.bytes])
    }

    /// Reads whatever has arrived, in any order: how much, each time.
    pub async fn read(mut stream: RecvStream, mut count: impl FnMut(usize)) -> Result<()> {
        while let Some(chunk) = stream.read_chunk(usize::MAX, false).await.context("cannot read a stream")? {
            count(chunk.bytes.len());
        }
        Ok(())
    }
}
