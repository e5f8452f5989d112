//! noq 1.x under the names that `ends.rs` uses.

#[path = "ends.rs"]
pub mod ends;

/// The stack.
pub mod stack {
    use anyhow::{Context, Result};
    pub use headway_cc::quic::sim::noq::net::{AHEAD_BYTES, LEAST_QUIC_BYTES, NAME, Setup, UNSENT_BYTES};
    pub use headway_cc::quic::sim::noq::own;
    use noq::PathId;
    pub use noq::congestion::ControllerFactory;
    pub use noq::{Connection, Endpoint, RecvStream, SendStream, TokioRuntime};
    use std::time::Duration;

    /// Window, smoothed round trip, packets declared lost; datagrams and bytes sent.
    pub fn path(connection: &Connection) -> (u64, Duration, u64, [u64; 2]) {
        let sent = connection.stats().udp_tx;
        connection.path_stats(PathId::ZERO).map_or(Default::default(), |path| {
            (path.cwnd, path.rtt, path.lost_packets, [sent.datagrams, sent.bytes])
        })
    }

    /// Reads whatever has arrived, in any order: how much, each time.
    pub async fn read(stream: RecvStream, mut count: impl FnMut(usize)) -> Result<()> {
        let mut stream = stream.into_unordered();
        while let Some(chunk) = stream.read_chunk(usize::MAX).await.context("cannot read a stream")? {
            count(chunk.bytes.len());
        }
        Ok(())
    }
}
