//! Netlink, the kernel's interface for routes, addresses and devices: one request and its answers. Rustix has the
//! sockets; the messages are laid out here.

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use std::io;

/// Bytes of `struct nlmsghdr` and `struct rtattr`.
const HEADER: usize = 16;
const ATTRIBUTE: usize = 4;

/// Kind and value of each attribute; ends at the first that is cut off. The two highest bits of a kind are flags.
pub fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(rest.get(2..ATTRIBUTE)?.try_into().ok()?) & 0x3fff;
        let value = rest.get(ATTRIBUTE..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Appends an attribute, with the zeros that fill it to a multiple of four bytes.
pub fn put(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend(((ATTRIBUTE + value.len()) as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// A value that is one word of 32 bits.
pub fn word(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(value.try_into().ok()?))
}

/// Sends one request to the routing part of the kernel and returns what it answers, without the headers.
pub fn ask(kind: u16, flags: libc::c_int, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut message = Vec::new();
    message.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((flags as u16).to_ne_bytes());
    message.extend([0; 8]); // sequence number and port, which a socket of one request does not need
    message.extend(body);
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    send(&socket, &message, SendFlags::empty())?;
    let (mut found, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let (n, _) = recv(&socket, &mut buffer, RecvFlags::empty())?;
        let mut rest = &buffer[..n];
        while let Some((kind, body, left)) = split(rest) {
            rest = left;
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok(found),
                libc::NLMSG_ERROR => match body.get(..4).and_then(word).map(|e| e as i32) {
                    Some(0) => return Ok(found),
                    error => return Err(io::Error::from_raw_os_error(-error.unwrap_or(-libc::EBADMSG))),
                },
                _ => found.push(body.to_vec()),
            }
        }
    }
}

/// The first message: its kind, its body, and what follows it.
fn split(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let body = bytes.get(HEADER..length)?;
    Some((kind, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}
