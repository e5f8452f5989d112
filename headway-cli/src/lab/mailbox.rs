//! The mailbox, through which host and guest exchange bytes: a window of the guest's memory that its kernel was told
//! to leave alone (`memmap=`).
//!
//! The host writes the job before it starts the guest and reads the answer after the guest has ended. No device takes
//! part, so nothing here can touch the guest's clock, and a byte costs what a copy costs, not the instructions of a
//! driver, which would be the guest's time.

use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Where the window lies in the guest's physical memory: above the kernel's image, below the initramfs.
pub const ADDRESS: u64 = 128 << 20;
pub const BYTES: u64 = 128 << 20;

/// The window's first part holds the job, the rest the answer. A job is a plan without its other cells and fits
/// easily.
const JOB_BYTES: u64 = 16 << 20;

/// What stands before a job and an answer, so that empty or foreign memory is not taken for one.
const JOB: &[u8; 8] = b"hw-job-1";
const ANSWER: &[u8; 8] = b"hw-ans-1";

/// What a guest hands back.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// `ok`, or what went wrong.
    pub status: String,
    /// Name and content of each raw file.
    pub files: Vec<(String, Vec<u8>)>,
}

/// On the host: lays the job into the guest's `memory`.
pub fn put_job(memory: &File, job: &[u8]) -> Result<()> {
    ensure!(
        job.len() as u64 + 16 <= JOB_BYTES,
        "the cell's plan is too large for the lab ({} bytes)",
        job.len()
    );
    memory.write_all_at(&framed(JOB, job), ADDRESS).context("cannot write the guest's memory")
}

/// In the guest: the job in its window.
pub fn job(window: &[u8]) -> Option<&[u8]> {
    unframed(JOB, window)
}

/// In the guest: lays the answer into its window.
pub fn put_answer(window: &mut [u8], answer: &Answer) -> Result<()> {
    let bytes = answer.to_bytes();
    let place = &mut window[JOB_BYTES as usize..];
    ensure!(
        bytes.len() + 16 <= place.len(),
        "the raw files are larger than the lab's mailbox ({} of {} bytes); shorten the run or leave out the trace",
        bytes.len(),
        place.len()
    );
    place[8..16].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    place[16..16 + bytes.len()].copy_from_slice(&bytes);
    place[..8].copy_from_slice(ANSWER); // last: an answer that can be seen is whole
    Ok(())
}

/// On the host: the answer, if the guest came as far as giving one.
pub fn answer(memory: &File) -> Result<Option<Answer>> {
    let at = ADDRESS + JOB_BYTES;
    let mut head = [0; 16];
    memory.read_exact_at(&mut head, at).context("cannot read the guest's memory")?;
    if &head[..8] != ANSWER {
        return Ok(None);
    }
    let length = u64::from_le_bytes(head[8..].try_into()?);
    ensure!(length <= BYTES - JOB_BYTES, "the guest's answer is damaged");
    let mut bytes = vec![0; length as usize];
    memory.read_exact_at(&mut bytes, at + 16).context("cannot read the guest's memory")?;
    Answer::from_bytes(&bytes).map(Some)
}

/// Magic number, length and content.
fn framed(magic: &[u8; 8], content: &[u8]) -> Vec<u8> {
    [magic.as_slice(), &(content.len() as u64).to_le_bytes(), content].concat()
}

fn unframed<'a>(magic: &[u8; 8], window: &'a [u8]) -> Option<&'a [u8]> {
    let (head, rest) = window.split_at_checked(16)?;
    let length = u64::from_le_bytes(head[8..].try_into().ok()?);
    rest.get(..usize::try_from(length).ok()?).filter(|_| &head[..8] == magic)
}

impl Answer {
    /// For each part a line `NAME LENGTH`, then its bytes; the part without a name is the status.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = format!(" {}\n{}", self.status.len(), self.status).into_bytes();
        for (name, content) in &self.files {
            out.extend(format!("{name} {}\n", content.len()).bytes());
            out.extend(content);
        }
        out
    }

    fn from_bytes(mut bytes: &[u8]) -> Result<Self> {
        let mut answer = Self { status: String::new(), files: Vec::new() };
        while !bytes.is_empty() {
            let (name, content, rest) = part(bytes).context("the guest's answer is damaged")?;
            match name {
                "" => answer.status = String::from_utf8_lossy(content).into_owned(),
                _ => answer.files.push((name.to_string(), content.to_vec())),
            }
            bytes = rest;
        }
        Ok(answer)
    }
}

/// One part: its name, its content and what follows. `None` where it is damaged, and where the name would lead out of
/// the cell's folder.
fn part(bytes: &[u8]) -> Option<(&str, &[u8], &[u8])> {
    let end = bytes.iter().position(|&b| b == b'\n')?;
    let (name, length) = std::str::from_utf8(&bytes[..end]).ok()?.split_once(' ')?;
    let (content, rest) = bytes[end + 1..].split_at_checked(length.parse().ok()?)?;
    (!name.contains('/') && name != "..").then_some((name, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::lab::memory_file;

    fn exchange(answer_in: &Answer) -> Result<Answer> {
        let memory = memory_file("headway-test", ADDRESS + BYTES)?;
        assert_eq!(answer(&memory)?, None);
        put_job(&memory, b"{\"a\":1}")?;
        let mut window = vec![0; 64 << 20];
        memory.read_exact_at(&mut window[..64], ADDRESS)?;
        assert_eq!(job(&window), Some(b"{\"a\":1}".as_slice()));
        put_answer(&mut window, answer_in)?;
        memory.write_all_at(&window, ADDRESS)?;
        Ok(answer(&memory)?.expect("an answer was written"))
    }

    #[test]
    fn job_and_answer_cross_unchanged() {
        let sent = Answer {
            status: "iperf3 failed:\nno route".into(),
            files: vec![("load.json".into(), b"{}\n 5\n".to_vec()), ("link.txt".into(), vec![])],
        };
        assert_eq!(exchange(&sent).unwrap(), sent);
    }

    #[test]
    fn an_answer_that_does_not_fit_is_an_error() {
        let answer = Answer { status: "ok".into(), files: vec![("acks.txt".into(), vec![b'x'; 1 << 20])] };
        let mut window = vec![0; JOB_BYTES as usize + 4096];
        assert!(put_answer(&mut window, &answer).unwrap_err().to_string().contains("larger than"));
    }

    #[test]
    fn a_name_that_leaves_the_folder_is_refused() {
        assert!(Answer::from_bytes(b"../x 1\na").is_err());
        assert!(Answer::from_bytes(b"x 9\na").is_err());
    }

    #[test]
    fn an_empty_window_holds_no_job() {
        assert_eq!(job(&[0; 64]), None);
        assert_eq!(job(&[]), None);
    }
}
