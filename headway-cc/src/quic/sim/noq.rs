//! noq 1.x under the names that `net.rs` uses, and its own controllers.

#[path = "net.rs"]
pub mod net;

use stack::proto::congestion::{Bbr3Config, ControllerFactory, CubicConfig, NewRenoConfig};
use std::sync::Arc;

/// A controller that the stack ships, by its name in [`super::OWN`].
pub fn own(name: &str) -> Option<Arc<dyn ControllerFactory + Send + Sync>> {
    Some(match name {
        "noq-bbr3" => Arc::new(Bbr3Config::default()),
        "noq-cubic" => Arc::new(CubicConfig::default()),
        "noq-newreno" => Arc::new(NewRenoConfig::default()),
        _ => return None,
    })
}

/// The stack.
pub mod stack {
    #![allow(missing_docs)]

    use bytes::BytesMut;
    pub use noq_proto as proto;
    use proto::{Connection, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, FourTuple};
    use proto::{PathId, ServerConfig, Transmit};
    use std::net::SocketAddr;
    use std::num::NonZeroUsize;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    /// Most that the stack's pacer lets through, in per cent of the controller's rate.
    pub const PACED_PERCENT: u64 = 100;
    /// Most bytes that the stack reports lost as one: noq reports each packet.
    pub const LOST_BYTES: u64 = 1472;

    pub fn endpoint(config: Arc<EndpointConfig>, server: Option<Arc<ServerConfig>>) -> Endpoint {
        Endpoint::new(config, server, true)
    }

    pub fn handle(
        endpoint: &mut Endpoint,
        now: Instant,
        from: SocketAddr,
        ecn: Option<EcnCodepoint>,
        data: BytesMut,
        answer: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        endpoint.handle(now, FourTuple::new(from, None), ecn, data, answer)
    }

    pub fn poll_transmit(
        connection: &mut Connection,
        now: Instant,
        segments: usize,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        connection.poll_transmit(now, NonZeroUsize::new(segments)?, buffer)
    }

    /// The window in bytes, the smoothed RTT, and the number of packets declared lost.
    pub fn path(connection: &mut Connection) -> (u64, Duration, u64) {
        connection
            .path_stats(PathId::ZERO)
            .map_or((0, Duration::ZERO, 0), |s| (s.cwnd, s.rtt, s.lost_packets))
    }
}
