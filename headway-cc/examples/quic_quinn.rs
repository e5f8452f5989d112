//! A server that sends with bbr3 over quinn, and a client that receives: `cargo run --example quic_quinn --features quinn`.

use headway_cc::quic::Factory;
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig};
use std::error::Error;
use std::sync::Arc;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome {
    let certificate =
        rustls::pki_types::CertificateDer::from(&include_bytes!("../src/quic/sim/localhost.cert.der")[..]);
    let key =
        rustls::pki_types::PrivateKeyDer::try_from(&include_bytes!("../src/quic/sim/localhost.key.der")[..])?;

    // The only lines that are about congestion control: which controller, on the side that sends.
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(Arc::new(Factory::named("bbr3")?));

    let mut config = ServerConfig::with_single_cert(vec![certificate.clone()], key)?;
    config.transport_config(Arc::new(transport));
    let server = Endpoint::server(config, "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    let serving = tokio::spawn(async move {
        let connection = server.accept().await.ok_or("the endpoint is closed")?.await?;
        let mut stream = connection.open_uni().await?;
        stream.write_all(&vec![0; 10_000_000]).await?;
        stream.finish()?;
        connection.closed().await;
        Outcome::Ok(())
    });

    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate)?;
    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    let connection = client.connect_with(config, address, "localhost")?.await?;
    let bytes = connection.accept_uni().await?.read_to_end(10_000_000).await?;
    println!("{} bytes", bytes.len());
    connection.close(0u32.into(), b"");
    serving.await?
}
