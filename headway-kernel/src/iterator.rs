//! Walking over sockets: an iterator of the kernel calls a program of ours for each, which puts a row into a ring buffer. So
//! does a program that the kernel calls at other times; then the ring is all that is read.
//!
//! What we want are the sockets of which a map of ours has an element. An iterator over the map finds just these, in whatever
//! network namespace they are. But hardened kernels refuse iterators over maps, even one whose program does nothing, while they
//! allow those over sockets. There we walk over all TCP sockets of each network namespace, and the program looks into the map.

use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;

use libbpf_rs::{Iter, Link, MapHandle, Object, RingBuffer, RingBufferBuilder};

use crate::error::{Context, Result};
use crate::netns::Netns;
use crate::object::map_of;

/// The programs of a BPF object that see the sockets of which its maps have an element.
pub(crate) struct Sights {
    /// Each is called for every element of a map: program and map. Together they see what `of_sockets` sees.
    pub(crate) of_maps: [(&'static str, &'static str); 2],
    /// Called for every TCP socket of a network namespace.
    pub(crate) of_sockets: &'static str,
}

/// Walks over the sockets of which a BPF object's maps have an element, again and again.
#[derive(Debug)]
pub(crate) enum Walker {
    /// By the elements.
    OverMaps([Link; 2]),
    /// By all TCP sockets of all network namespaces.
    OverSockets(Link),
}

impl Walker {
    /// Has the object loaded with the programs that the kernel allows: `load` is given their names.
    pub(crate) fn open(
        sights: &Sights,
        load: impl Fn(&[&str]) -> Result<Object>,
    ) -> Result<(Object, Walker)> {
        let over_maps = || -> Result<_> {
            let [one, other] = sights.of_maps;
            let mut object = load(&[one.0, other.0])?;
            let mut link = |(program, map)| {
                let map = map_of(&object, map)?;
                attach(&mut object, program, Some(&map))
            };
            let links = [link(one)?, link(other)?];
            Ok((object, Walker::OverMaps(links)))
        };
        let over_sockets = || -> Result<_> {
            let mut object = load(&[sights.of_sockets])?;
            let link = attach(&mut object, sights.of_sockets, None)?;
            Ok((object, Walker::OverSockets(link)))
        };
        // If neither is allowed, what forbids the first is what the user should read of.
        over_maps().or_else(|refused| over_sockets().map_err(|_| refused))
    }

    /// Walks to the end; the rows come through a ring. A socket that belongs to a network namespace in which no process is, is
    /// seen by its map's element only.
    pub(crate) fn walk(&self, rows: &MapHandle, mut take: impl FnMut(&[u8])) -> Result<()> {
        match self {
            Walker::OverMaps(links) => links.iter().try_for_each(|link| walk(link, rows, &mut take)),
            Walker::OverSockets(link) => {
                walk(link, rows, &mut take)?;
                for netns in Netns::all().iter().filter(|n| !n.is_own()) {
                    // An iterator belongs to the namespace in which it was started, wherever it is read.
                    let iterator = netns.inside(|| start(link)).with_context(|| {
                        format!("cannot enter the network namespace of process {}", netns.pid)
                    })??;
                    run(iterator, rows, &mut take)?;
                }
                Ok(())
            }
        }
    }
}

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
    run(start(link)?, rows, take)
}

fn start(link: &Link) -> Result<Iter> {
    Iter::new(link).context("cannot start the iterator")
}

fn run(mut iterator: Iter, rows: &MapHandle, take: impl FnMut(&[u8])) -> Result<()> {
    let ring = ring(rows, take)?;
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
