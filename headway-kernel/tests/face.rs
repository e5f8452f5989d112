//! The public face, used as another program uses it: these tests see nothing of the crate's inside. Without root the
//! first skips.

#[path = "../examples/attach.rs"]
mod example;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use headway_kernel::{Error, Options, attach, available, is_registered, needs, replay};
use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};

/// Loads, uses, traces, replays and unregisters a controller, then runs the example.
#[test]
fn root_a_controller_is_loaded_through_the_public_face_only() {
    if let Some(missing) = needs().into_iter().find(|need| need.required && !need.ok) {
        return println!("skipped: this machine lacks {}", missing.what);
    }
    let name = format!("hwf{}", std::process::id());
    let options = Options { name: Some(name.clone()), trace: true };
    let mut attached = attach("bbr3:default_cwnd_gain=2.5", &options).unwrap();
    let text = Text::default();
    let trace = attached.trace(text.clone()).unwrap();
    assert!(is_registered(&name));
    send_over_loopback(&name);
    let (traced, counters) = (trace.finish().unwrap(), attached.counters().unwrap());
    assert_eq!((counters.flows, counters.without_storage, traced.lost), (1, 0, 0));
    let text = String::from_utf8(text.0.lock().unwrap().clone()).unwrap();
    let report = replay(&text).unwrap();
    assert_eq!((report.cc, report.flows, report.events), ("bbr3", 1, traced.events));
    assert!(text.contains("\n# set default_cwnd_gain=2.5\n") && report.events > 10, "{report:?}");
    drop(attached);
    assert!(!is_registered(&name));
    example::main().unwrap();
}

fn send_over_loopback(cc: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut far = listener.accept().unwrap().0;
    set_tcp_congestion(&near, cc).unwrap();
    assert_eq!(tcp_congestion(&near).unwrap(), cc);
    std::thread::scope(|scope| {
        scope.spawn(|| near.write_all(&vec![0; 1 << 20]).unwrap());
        far.read_exact(&mut vec![0; 1 << 20]).unwrap();
    });
}

#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_error_has_parts_and_a_whole_text() {
    let error: Error = attach("bbr9", &Options::default()).unwrap_err();
    assert_eq!(error.what(), "no BPF controller is called `bbr9`");
    assert!(error.hint().is_some_and(|h| h.contains("`bbr3`")), "{error}");
    assert!(error.to_string().starts_with("no BPF controller is called `bbr9`\nhint: there is "), "{error}");
    assert!(available().attachable.contains(&"bbr3"));
    let error = attach("bbr3:nosuch=1", &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "cannot set `bbr3:nosuch=1`");
    assert!(format!("{error:#}").starts_with("cannot set `bbr3:nosuch=1`: there is no parameter `nosuch`"));
}
