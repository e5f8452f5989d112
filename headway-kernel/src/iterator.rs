//! Walking over sockets: an iterator of the kernel calls a program of ours for each, which puts a row into a ring buffer. So
//! does a program that the kernel calls at other times; then the ring is all that is read.

use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;

use libbpf_rs::{Iter, Link, MapHandle, Object, RingBuffer, RingBufferBuilder};

use crate::error::{Context, Result};

/// Attaches an iterator; over a map where it walks one.
pub(crate) fn attach(object: &mut Object, program: &str, map: Option<&MapHandle>) -> Result<Link> {
    let found = object.progs_mut().find(|p| p.name() == program);
    let found = found.with_context(|| format!("the BPF object has no program `{program}`"))?;
    let link = match map {
        Some(map) => found.attach_iter(map.as_fd()),
        None => found.attach(),
    };
    link.with_context(|| format!("cannot attach the iterator `{program}`"))
}

/// Runs an iterator to its end, whose rows come through a ring.
pub(crate) fn walk(link: &Link, rows: &MapHandle, take: impl FnMut(&[u8])) -> Result<()> {
    let ring = ring(rows, take)?;
    let mut iterator = Iter::new(link).context("cannot start the iterator")?;
    loop {
        let read = iterator.read(&mut [0; 8]);
        ring.consume().context("cannot read the ring")?;
        match read {
            Ok(_) => break Ok(()),
            // The ring was full, or the kernel has looked at a million sockets and asks to go on.
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => continue,
            Err(e) => return Err(e).context("the iterator fails"),
        }
    }
}

/// Takes what is in a ring.
pub(crate) fn drain(rows: &MapHandle, take: impl FnMut(&[u8])) -> Result<()> {
    ring(rows, take)?.consume().context("cannot read the ring")
}

fn ring<'a>(rows: &'a MapHandle, mut take: impl FnMut(&[u8]) + 'a) -> Result<RingBuffer<'a>> {
    let row = move |bytes: &[u8]| {
        take(bytes);
        0
    };
    let mut builder = RingBufferBuilder::new();
    builder.add(rows, row).context("cannot open the ring")?;
    builder.build().context("cannot open the ring")
}
