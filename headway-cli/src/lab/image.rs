//! Gets the ELF image out of the kernel file that a distribution ships (a bzImage), and the kernel's version out of
//! that.
//!
//! The emulator enters an ELF image directly (through PVH, a boot protocol for virtual machines). A bzImage would
//! unpack itself in the guest, which takes a second or more under emulation for each cell; here it is done once per
//! process.

use crate::sys::program::pipe_through;
use anyhow::{Context, Result, bail, ensure};

const ELF: &[u8] = b"\x7fELF";

/// The ELF image in `file`, which is a bzImage or already an ELF image.
pub fn unpack(file: Vec<u8>) -> Result<Vec<u8>> {
    if file.starts_with(ELF) {
        return Ok(file);
    }
    let packed = payload(&file)?;
    let image = decompress(packed)?;
    ensure!(image.starts_with(ELF), "what the kernel file unpacks to is no ELF image");
    Ok(image)
}

/// The kernel's version (`6.1.0-49-cloud-amd64`), from the banner that every kernel carries.
pub fn version(image: &[u8]) -> Option<String> {
    const BANNER: &[u8] = b"Linux version ";
    image.windows(BANNER.len()).enumerate().filter(|(_, w)| *w == BANNER).find_map(|(at, _)| {
        let text = &image[at + BANNER.len()..];
        let word = &text[..text.iter().take(80).position(|&b| b == b' ')?];
        let word = std::str::from_utf8(word).ok()?;
        word.starts_with(|c: char| c.is_ascii_digit()).then(|| word.to_string())
    })
}

/// Unpacks a kernel or a module. Its first bytes tell the format.
pub fn decompress(packed: &[u8]) -> Result<Vec<u8>> {
    match packed {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => pipe_through("zstd", &["-dcq"], packed),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => pipe_through("xz", &["-dcq"], packed),
        [0x1f, 0x8b, ..] => pipe_through("gzip", &["-dcq"], packed),
        [0x02, 0x21, 0x4c, 0x18, ..] => lz4_legacy(packed),
        _ => bail!("packed in a format that the lab does not know (it knows zstd, xz, gzip and LZ4)"),
    }
}

/// The packed part of a bzImage (Linux boot protocol 2.08 or later).
fn payload(file: &[u8]) -> Result<&[u8]> {
    ensure!(file.get(0x202..0x206) == Some(b"HdrS"), "neither a bzImage nor an ELF image");
    let word = |at: usize| {
        let bytes = file.get(at..at + 4).context("the kernel file ends inside its header")?;
        Ok::<_, anyhow::Error>(u32::from_le_bytes(bytes.try_into()?) as usize)
    };
    let setup_sectors = match file[0x1f1] {
        0 => 4, // as the boot protocol says
        n => usize::from(n),
    };
    let start = (setup_sectors + 1) * 512 + word(0x248)?;
    let packed = file.get(start..start + word(0x24c)?).context("the kernel file is cut short")?;
    // Except for gzip, which has it anyway, the unpacked size is appended as four bytes.
    let tail = if packed.starts_with(&[0x1f, 0x8b]) { 0 } else { 4 };
    packed.get(..packed.len().saturating_sub(tail)).context("the kernel file holds no payload")
}

/// Unpacks LZ4's legacy frame, which Debian's 6.1 uses: after the magic number, blocks of (packed length, block). By
/// hand, so that the lab needs one program less.
fn lz4_legacy(packed: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(packed.len() * 4);
    let mut rest = &packed[4..];
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        ensure!(length <= tail.len(), "an LZ4 block is cut short");
        let (block, tail) = tail.split_at(length);
        lz4_block(block, &mut out).context("an LZ4 block is malformed")?;
        rest = tail;
    }
    Ok(out)
}

/// Unpacks one LZ4 block to the end of `out`: (token, literals, offset of a match, its length), repeated until the
/// block ends after literals. `None` if it is malformed.
fn lz4_block(mut input: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    while let Some((&token, rest)) = input.split_first() {
        input = rest;
        let literals = lz4_length(usize::from(token >> 4), &mut input)?;
        out.extend_from_slice(input.get(..literals)?);
        input = &input[literals..];
        if input.is_empty() {
            break;
        }
        let offset = usize::from(u16::from_le_bytes([*input.first()?, *input.get(1)?]));
        input = &input[2..];
        let length = 4 + lz4_length(usize::from(token & 15), &mut input)?;
        let from = out.len().checked_sub(offset).filter(|&at| offset > 0 && at >= start)?;
        // A match may overlap what it produces, so it is copied byte by byte.
        for at in from..from + length {
            out.push(out[at]);
        }
    }
    Some(())
}

/// A length of the format: four bits; if all are set, further bytes are added up to and including the first below 255.
fn lz4_length(nibble: usize, input: &mut &[u8]) -> Option<usize> {
    let mut length = nibble;
    if nibble == 15 {
        loop {
            let (&more, rest) = input.split_first()?;
            *input = rest;
            length += usize::from(more);
            if more != 255 {
                break;
            }
        }
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bzimage(payload: &[u8]) -> Vec<u8> {
        let mut file = vec![0u8; 1024];
        file[0x1f1] = 1;
        file[0x202..0x206].copy_from_slice(b"HdrS");
        file[0x248..0x24c].copy_from_slice(&16u32.to_le_bytes());
        file[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        file.extend([0u8; 16]);
        file.extend(payload);
        file.extend(b"signature");
        file
    }

    #[test]
    fn a_bzimage_packed_with_lz4_unpacks() {
        // Literals "\x7fELF" + "ab", a match of 8 at offset 2 ("abababab"), then the last literal "c".
        let block = [0x64, 0x7f, b'E', b'L', b'F', b'a', b'b', 2, 0, 0x10, b'c'];
        let mut packed = vec![0x02, 0x21, 0x4c, 0x18];
        packed.extend((block.len() as u32).to_le_bytes());
        packed.extend(block);
        packed.extend(15u32.to_le_bytes()); // unpacked size, appended by the kernel's build
        assert_eq!(
            unpack(bzimage(&packed)).unwrap(),
            b"\x7fELFababababab".iter().chain(b"c").copied().collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_cut_or_foreign_file_is_refused() {
        assert!(unpack(b"#!/bin/sh".to_vec()).unwrap_err().to_string().contains("neither"));
        let mut file = bzimage(&[0x02, 0x21, 0x4c, 0x18, 200, 0, 0, 0, 1, 2, 3, 4]);
        assert!(unpack(file.clone()).unwrap_err().to_string().contains("cut short"));
        file.truncate(1030);
        assert!(unpack(file).unwrap_err().to_string().contains("cut short"));
    }

    #[test]
    fn lz4_offsets_outside_the_block_are_refused() {
        let mut out = Vec::new();
        assert!(lz4_block(&[0x10, b'a', 5, 0, 0], &mut out).is_none());
        assert!(lz4_block(&[0x10, b'a', 0, 0, 0], &mut out).is_none());
    }

    #[test]
    fn long_lengths_continue_in_further_bytes() {
        let mut out = Vec::new();
        let mut block = vec![0xf0, 255, 10];
        block.extend(vec![b'x'; 15 + 255 + 10]);
        assert!(lz4_block(&block, &mut out).is_some());
        assert_eq!(out.len(), 280);
    }

    #[test]
    fn the_version_is_in_the_banner() {
        let image = b"..Linux version %s\0..Linux version 6.1.0-49-cloud-amd64 (debian-kernel)\0";
        assert_eq!(version(image).as_deref(), Some("6.1.0-49-cloud-amd64"));
        assert_eq!(version(b"nothing"), None);
    }
}
