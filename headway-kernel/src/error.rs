//! The one error type of this crate, and the short forms that the other files make it with.

use std::error::Error as StdError;
use std::fmt;

/// What every fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What failed, what to do about it, and what caused it.
///
/// `{}` shows what failed and the hint, each on a line of its own; `{:#}` shows the causes too, from the outside in,
/// and then all hints:
///
/// ```text
/// cannot attach `bbr1`: this machine lacks: rights to load BPF
/// hint: run as root (or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN)
/// ```
///
/// Some hints name commands of the program `headway`, from which this crate comes.
pub struct Error {
    what: String,
    hint: Option<String>,
    kind: ErrorKind,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What an error comes from, as far as a program may want to act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such thing in the kernel: nothing of ours is loaded or assigned under this name.
    NotLoaded,
    /// There is one already.
    NameTaken,
    /// The user's rights do not allow it.
    NeedsRights,
    /// The kernel's BPF file system is not mounted.
    NoBpfFs,
    /// The kernel lacks what it takes, or does not take our program.
    RefusedByKernel,
    /// Anything else.
    Other,
}

impl Error {
    /// What it comes from: the first kind that this error or one of its causes has.
    pub fn kind(&self) -> ErrorKind {
        let causes = self.causes().filter_map(|e| e.downcast_ref::<Error>());
        let mut kinds = std::iter::once(self).chain(causes).map(|e| e.kind);
        kinds.find(|kind| *kind != ErrorKind::Other).unwrap_or(ErrorKind::Other)
    }

    /// What failed: part of a sentence, without its cause and without a period.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// What the user can do about it, if this error itself says so. Its cause may bring a hint of its own.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None, kind: ErrorKind::Other, source: None }
    }

    pub(crate) fn of(self, kind: ErrorKind) -> Self {
        Self { kind, ..self }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn caused_by(self, source: impl StdError + Send + Sync + 'static) -> Self {
        Self { source: Some(Box::new(source)), ..self }
    }

    /// The causes, from the outside in.
    fn causes(&self) -> impl Iterator<Item = &(dyn StdError + 'static)> {
        std::iter::successors(self.source(), |&e| e.source())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        let mut hints: Vec<&str> = self.hint.as_deref().into_iter().collect();
        if f.alternate() {
            for cause in self.causes() {
                match cause.downcast_ref::<Error>() {
                    Some(ours) => {
                        write!(f, ": {}", ours.what)?;
                        hints.extend(ours.hint());
                    }
                    None => write!(f, ": {cause}")?,
                }
            }
        }
        hints.into_iter().try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}

/// The same as `{:#}`, because this is what a failed `unwrap` and a `main` that returns the error print.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.source.as_deref()? as &(dyn StdError + 'static))
    }
}

/// Says what was being done when something failed or was missing.
pub(crate) trait Context<T> {
    fn context(self, what: &str) -> Result<T>;
    fn with_context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: StdError + Send + Sync + 'static> Context<T> for std::result::Result<T, E> {
    fn context(self, what: &str) -> Result<T> {
        self.map_err(|e| Error::new(what).caused_by(e))
    }

    fn with_context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| Error::new(what()).caused_by(e))
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, what: &str) -> Result<T> {
        self.ok_or_else(|| Error::new(what))
    }

    fn with_context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.ok_or_else(|| Error::new(what()))
    }
}

/// Returns an error that says this.
macro_rules! bail {
    ($($what:tt)*) => { return Err($crate::error::Error::new(format!($($what)*))) };
}

/// Returns an error that says this unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($what:tt)*) => {
        if !$condition {
            $crate::error::bail!($($what)*);
        }
    };
}

pub(crate) use {bail, ensure};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_follow_and_hints_come_last() {
        let inner = Error::new("it is taken").with_hint("choose another");
        let middle = Error::new("cannot register it").caused_by(inner);
        let outer = Error::new("cannot attach").with_hint("read the manual").caused_by(middle);
        assert_eq!(outer.to_string(), "cannot attach\nhint: read the manual");
        let whole =
            "cannot attach: cannot register it: it is taken\nhint: read the manual\nhint: choose another";
        assert_eq!(format!("{outer:#}"), whole);
        assert_eq!(format!("{outer:?}"), whole);
    }

    #[test]
    fn the_kind_is_the_outermost_that_there_is() {
        let inner = Error::new("it is taken").of(ErrorKind::NameTaken);
        let outer = Error::new("cannot attach").caused_by(Error::new("cannot register it").caused_by(inner));
        assert_eq!(outer.kind(), ErrorKind::NameTaken);
        assert_eq!(Error::new("a full disk").kind(), ErrorKind::Other);
        assert_eq!(
            Error::new("no rights").of(ErrorKind::NeedsRights).caused_by(outer).kind(),
            ErrorKind::NeedsRights
        );
    }
}
