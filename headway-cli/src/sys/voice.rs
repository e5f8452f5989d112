//! How a long command says on standard error how far it is: on a terminal one line that updates itself, elsewhere, such as in
//! a log, a line now and then, and with `--quiet` nothing.

use super::interrupt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

pub enum Voice {
    Quiet,
    Lines,
    Bar {
        bar: ProgressBar,
        /// Takes the line off the terminal, also when the program is interrupted.
        _guard: interrupt::Guard,
    },
}

impl Voice {
    /// For so many steps; the template is one of indicatif's.
    pub fn new(steps: u64, is_quiet: bool, template: &str) -> Self {
        if is_quiet {
            return Self::Quiet;
        }
        if !std::io::stderr().is_terminal() || steps == 0 {
            return Self::Lines;
        }
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
        bar.set_style(style(template));
        let to_clear = bar.clone();
        Self::Bar { bar, _guard: interrupt::guard(move || to_clear.finish_and_clear()) }
    }
}

/// The look of a line.
pub fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is one of indicatif's").progress_chars("=> ")
}
