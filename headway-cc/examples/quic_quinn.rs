//! A server that sends with bbr3 over quinn, and a client that receives.

use headway_cc::quic::{Factory, running_in_quinn};
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{RootCertStore, pki_types::PrivateKeyDer};
use std::error::Error;
use std::sync::Arc;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

const BYTES: usize = 10_000_000;

#[tokio::main]
async fn main() -> Outcome {
    // A certificate for this run only. Yours comes from wherever your server has it now.
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec!["localhost".to_string()])?;
    let key = PrivateKeyDer::try_from(signing_key.serialize_der())?;

    // The only lines that are about congestion control: which controller, on the side that sends.
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(Arc::new(Factory::named("bbr3")?));

    let mut config = ServerConfig::with_single_cert(vec![cert.der().clone()], key)?;
    config.transport_config(Arc::new(transport));
    let server = Endpoint::server(config, "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    let serving = tokio::spawn(serve(server));

    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone())?;
    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    let connection = client.connect_with(config, address, "localhost")?.await?;
    let received = connection.accept_uni().await?.read_to_end(BYTES).await?;
    println!("the client received {} bytes", received.len());
    connection.close(0u32.into(), b"");
    serving.await?
}

/// Takes one connection, says what decides how fast it sends, and sends.
async fn serve(server: Endpoint) -> Outcome {
    let connection = server.accept().await.ok_or("the endpoint is closed")?.await?;
    match running_in_quinn(connection.congestion_state()) {
        Some(controller) => println!("the server sends with {controller}"),
        None => println!("the server sends with a controller of quinn's own"),
    }
    let mut stream = connection.open_uni().await?;
    stream.write_all(&vec![0; BYTES]).await?;
    stream.finish()?;
    connection.closed().await;
    Ok(())
}
