//! Attaches BBRv3 to the running kernel, sends a megabyte over loopback with it, and shows what its programs counted.
//!
//! Run it as root: `cargo build -p headway-kernel --example attach && sudo target/debug/examples/attach`.

use std::error::Error;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use headway_kernel::{Options, attach};
use rustix::net::sockopt::set_tcp_congestion;

pub fn main() -> Result<(), Box<dyn Error>> {
    // From here on any socket of this machine can choose it; settings would follow the name, as in `bbr3:default_cwnd_gain=2.5`.
    let bbr3 = attach("bbr3", &Options::default())?;
    println!("attached as `{}`", bbr3.name());

    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let receiver = thread::spawn(move || io::copy(&mut listener.accept()?.0, &mut io::sink()));

    let mut sender = TcpStream::connect(address)?;
    set_tcp_congestion(&sender, bbr3.name())?; // setsockopt(TCP_CONGESTION)
    sender.write_all(&vec![0; 1 << 20])?;
    drop(sender);
    println!("{} bytes arrived", receiver.join().expect("the receiver does not panic")?);

    println!("{:?}", bbr3.counters()?);
    drop(bbr3); // takes the name out of the kernel again
    Ok(())
}
