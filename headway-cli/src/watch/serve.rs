//! Handing the text out over HTTP to whoever asks for `/metrics`.

use anyhow::{Context, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// The text as it is now; another thread writes it.
pub type Text = Arc<Mutex<String>>;

/// Whoever has not asked by then is no monitoring system.
const PATIENCE: Duration = Duration::from_secs(5);

/// More at once are not answered: this is no server for everybody.
const MOST: usize = 16;

/// Takes the address, calls `ready` with it, and answers for ever.
///
/// # Errors
/// The address is taken, not this machine's, or may not be used.
pub fn serve(address: SocketAddr, text: Text, ready: impl FnOnce(SocketAddr) -> Result<()>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await;
        let hint = "hint: another process may have it (`ss -tlnp`), or name another with --listen";
        let listener = listener.with_context(|| format!("cannot listen on {address}\n{hint}"))?;
        ready(listener.local_addr()?)?;
        let room = Arc::new(Semaphore::new(MOST));
        loop {
            let permit = room.clone().acquire_owned().await?;
            let Ok((stream, _)) = listener.accept().await else {
                // Out of descriptors, or the peer has gone: neither is for ever.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let text = text.clone();
            tokio::spawn(async move {
                let service = service_fn(|request| {
                    let response = answer(&request, &text);
                    async { Ok::<_, Infallible>(response) }
                });
                let mut http = http1::Builder::new();
                http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false);
                let _ =
                    tokio::time::timeout(2 * PATIENCE, http.serve_connection(TokioIo::new(stream), service))
                        .await;
                drop(permit);
            });
        }
    })
}

fn answer(request: &Request<Incoming>, text: &Text) -> Response<Full<Bytes>> {
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let text = text.lock().unwrap_or_else(|e| e.into_inner()).clone();
            (StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
        }
        (&Method::GET | &Method::HEAD, _) => {
            (StatusCode::NOT_FOUND, "text/plain", "only /metrics is here\n".into())
        }
        _ => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET\n".into()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
