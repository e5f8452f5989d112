//! `networks.txt`: which client network each number of connections.txt is. It is the only file of a trial with addresses, and
//! there only if it was asked for.

use crate::trial::connection::Key;
use anyhow::{Context, Result};
use headway_kernel::Record;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

const NAME: &str = "networks.txt";

/// Notes each network once, or none.
#[derive(Debug)]
pub struct Networks(Option<(File, BTreeSet<u64>)>);

impl Networks {
    /// Of a trial with this folder: if it is wanted now, or was when the trial began.
    pub fn open(dir: &Path, is_wanted: bool) -> Result<Networks> {
        let name = dir.join(NAME);
        let there = fs::read_to_string(&name).ok();
        if there.is_none() && !is_wanted {
            return Ok(Networks(None));
        }
        let number = |line: &str| u64::from_str_radix(line.split(' ').next()?, 16).ok();
        let known = there.iter().flat_map(|text| text.lines()).filter_map(number).collect();
        let file = OpenOptions::new().create(true).append(true).open(&name);
        Ok(Networks(Some((file.with_context(|| format!("cannot write `{}`", name.display()))?, known))))
    }

    pub fn note(&mut self, key: &Key, records: &[Record]) -> Result<()> {
        let Some((file, known)) = &mut self.0 else { return Ok(()) };
        let mut text = String::new();
        for record in records {
            let number = key.network(record.remote);
            if known.insert(number) {
                text += &format!("{number:016x} {}\n", network(record.remote));
            }
        }
        file.write_all(text.as_bytes())
            .with_context(|| format!("cannot write {NAME}\nhint: is the disk full?"))
    }
}

/// The network that an address is counted with.
fn network(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(a) => format!("{}/24", Ipv4Addr::from(u32::from(a) & 0xffff_ff00)),
        IpAddr::V6(a) => format!("{}/48", Ipv6Addr::from(u128::from(a) & !0 << 80)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_cut_to_its_network() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("192.0.2.77"), "192.0.2.0/24");
        assert_eq!(of("::ffff:192.0.2.77"), "192.0.2.0/24");
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1::/48");
    }
}
