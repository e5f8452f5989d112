//! noq 1.x under the names that `net.rs` uses.

pub mod stack {
    use bytes::BytesMut;
    pub use noq_proto as proto;
    use proto::{Connection, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, FourTuple};
    use proto::{ServerConfig, Transmit};
    use std::net::SocketAddr;
    use std::num::NonZeroUsize;
    use std::sync::Arc;
    use std::time::Instant;

    /// How much of the controller's rate the stack's pacer lets through, per cent.
    pub const PACED_PERCENT: u64 = 100;
    /// The most that is known to be lost as one.
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
}

#[cfg(test)]
#[path = "faults.rs"]
mod faults;
#[path = "net.rs"]
pub mod net;
#[cfg(test)]
#[path = "rows.rs"]
mod rows;
