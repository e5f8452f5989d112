//! quinn 0.11 under the names that `net.rs` uses, and its own controllers.

#[path = "net.rs"]
pub mod net;

use stack::proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use std::sync::Arc;

/// A controller that the stack ships, by its name in [`super::OWN`].
pub fn own(name: &str) -> Option<Arc<dyn ControllerFactory + Send + Sync>> {
    Some(match name {
        "quinn-bbr" => Arc::new(BbrConfig::default()),
        "quinn-cubic" => Arc::new(CubicConfig::default()),
        "quinn-newreno" => Arc::new(NewRenoConfig::default()),
        _ => return None,
    })
}

/// The stack.
pub mod stack {
    #![allow(missing_docs)]

    use bytes::BytesMut;
    use proto::{Connection, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig};
    use proto::{ServerConfig, Transmit};
    pub use quinn_proto as proto;
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    /// Most that the stack's pacer lets through, in per cent of the controller's rate.
    pub const PACED_PERCENT: u64 = 250;
    /// Most bytes that the stack reports lost as one: quinn reports a buffer of packets.
    pub const LOST_BYTES: u64 = 65536;

    pub fn endpoint(config: Arc<EndpointConfig>, server: Option<Arc<ServerConfig>>) -> Endpoint {
        Endpoint::new(config, server, true, None)
    }

    pub fn handle(
        endpoint: &mut Endpoint,
        now: Instant,
        from: SocketAddr,
        ecn: Option<EcnCodepoint>,
        data: BytesMut,
        answer: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        endpoint.handle(now, from, None, ecn, data, answer)
    }

    pub fn poll_transmit(
        connection: &mut Connection,
        now: Instant,
        segments: usize,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        connection.poll_transmit(now, segments, buffer)
    }

    /// The window in bytes, the smoothed RTT, and the number of packets declared lost.
    pub fn path(connection: &mut Connection) -> (u64, Duration, u64) {
        let path = connection.stats().path;
        (path.cwnd, path.rtt, path.lost_packets)
    }
}
