//! An interrupt ends a trial in good order: what is open is written down and the report is made before the process ends.

use crate::plan::show::shell_word;
use crate::sys::interrupt::{self, Guard};
use std::path::Path;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long that may take.
const LAST_WORDS: Duration = Duration::from_secs(60);

/// While this lives, Ctrl-C, SIGTERM and SIGHUP do not end the process at once but ask the trial to end, and wait until this
/// is dropped.
#[derive(Debug)]
pub struct Stop {
    asked: Arc<(Mutex<bool>, Condvar)>,
    // Dropped before the guard, which waits for it.
    _written: Sender<()>,
    _guard: Guard,
}

impl Stop {
    /// For a trial with this folder.
    pub fn on_interrupt(dir: &Path) -> Stop {
        interrupt::goes_on_with(format!("headway trial --resume {}", shell_word(&dir.display().to_string())));
        let asked = Arc::new((Mutex::new(false), Condvar::new()));
        let (written, is_written) = mpsc::channel::<()>();
        let ask = Arc::clone(&asked);
        let guard = interrupt::guard(move || {
            *ask.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            ask.1.notify_all();
            // Nobody ever sends: the other end goes when the trial is written down.
            let _ = is_written.recv_timeout(LAST_WORDS);
        });
        Stop { asked, _written: written, _guard: guard }
    }

    /// Waits for so long. Answers whether the trial was asked to end meanwhile, and then at once.
    pub fn wait(&self, time: Duration) -> bool {
        let asked = self.asked.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.asked.1.wait_timeout_while(asked, time, |asked| !*asked);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
