//! Structs as rows of integers.
//!
//! The kernel's trace, the C twin's text lines and Rust must print and compare the same thing, so an event, a control,
//! a state and a set of parameters are each written as a row of `u64`. In Rust the fields have the types that they mean
//! (a flag is a `bool`, a mode is an enum, the brake's memory is a struct of its own); here is how they become words and
//! how words become them again.

/// A value that is written as one word or as several.
pub trait Words: Copy {
    /// How many words it has.
    const WORDS: usize;

    /// A name for each word; none where the value is one word, which is then called as the field that holds it.
    const FIELDS: &'static [&'static str];

    /// What each named word is.
    const ABOUT: &'static [&'static str];

    /// Appends the words.
    fn put(&self, words: &mut Vec<u64>);

    /// Takes the words back. `None` when there are too few, or when one of them is no value of its type: a flag of 2, a
    /// mode that does not exist.
    fn take(words: &mut impl Iterator<Item = u64>) -> Option<Self>;
}

/// A value that is one word.
pub trait Word: Copy {
    /// The value of this word, if it is one.
    fn from_word(word: u64) -> Option<Self>;

    /// The word.
    fn word(self) -> u64;
}

impl Word for u64 {
    fn from_word(word: u64) -> Option<Self> {
        Some(word)
    }

    fn word(self) -> u64 {
        self
    }
}

impl Word for bool {
    fn from_word(word: u64) -> Option<Self> {
        (word <= 1).then_some(word == 1)
    }

    fn word(self) -> u64 {
        self.into()
    }
}

impl<T: Word> Words for T {
    const WORDS: usize = 1;
    const FIELDS: &'static [&'static str] = &[];
    const ABOUT: &'static [&'static str] = &[];

    fn put(&self, words: &mut Vec<u64>) {
        words.push(self.word());
    }

    fn take(words: &mut impl Iterator<Item = u64>) -> Option<Self> {
        Self::from_word(words.next()?)
    }
}

/// All texts of some lists, one list after the other.
pub(crate) const fn concat<const N: usize>(lists: &[&[&'static str]]) -> [&'static str; N] {
    let (mut all, mut filled, mut list) = ([""; N], 0, 0);
    while list < lists.len() {
        let mut at = 0;
        while at < lists[list].len() {
            all[filled] = lists[list][at];
            filled += 1;
            at += 1;
        }
        list += 1;
    }
    all
}

/// The texts of a type of several words, or else those that its field gives to its one word.
pub(crate) const fn own_or(
    own: &'static [&'static str],
    field: &'static [&'static str],
) -> &'static [&'static str] {
    if own.is_empty() { field } else { own }
}

/// Declares an enum that is one word of a row; the numbers are those of the C twin. The first variant is the default.
macro_rules! word {
    ($(#[$m:meta])* pub enum $name:ident { $($(#[$v:meta])* $variant:ident = $number:literal),+ $(,)? }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$v])* $variant = $number),+ }

        impl $name {
            /// Every value, in the order of its numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
        }

        impl $crate::cc::row::Word for $name {
            fn from_word(word: u64) -> Option<Self> {
                match word { $($number => Some(Self::$variant),)+ _ => None }
            }

            fn word(self) -> u64 { self as u64 }
        }

        impl From<$name> for u64 {
            fn from(value: $name) -> u64 { value as u64 }
        }
    };
}
pub(crate) use word;

/// Declares a struct that is a row of words.
///
/// The field order is the wire order of the kernel trace and of the twins' text lines. A field is `name: type`, with
/// `= value` where its default is not 0, and `as ["…"]` where its words have other names than the type or the field gives
/// them. A text after the struct's name is put before the names of all its words.
macro_rules! row {
    (@default) => { Default::default() };
    (@default $value:expr) => { $value };
    (@names $t:ty, $field:expr) => { $crate::cc::row::own_or(<$t as $crate::cc::row::Words>::FIELDS, &[$field]) };
    (@names $t:ty, $field:expr, $names:expr) => { &$names };
    ($(#[$m:meta])* pub struct $name:ident { $($body:tt)* }) => {
        $crate::cc::row::row! { $(#[$m])* pub struct $name "" { $($body)* } }
    };
    ($(#[$m:meta])* pub struct $name:ident $prefix:literal {
        $($(#[doc = $doc:literal])* $f:ident: $t:ty $(as $names:tt)? $(= $value:expr)?),+ $(,)?
    }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[doc = $doc])* pub $f: $t),+ }

        impl Default for $name {
            fn default() -> Self { Self { $($f: $crate::cc::row::row!(@default $($value)?)),+ } }
        }

        impl $crate::cc::row::Words for $name {
            const WORDS: usize = 0 $(+ <$t as $crate::cc::row::Words>::WORDS)+;

            const FIELDS: &'static [&'static str] =
                &$crate::cc::row::concat::<{ <Self as $crate::cc::row::Words>::WORDS }>(&[
                    $($crate::cc::row::row!(@names $t, concat!($prefix, stringify!($f)) $(, $names)?)),+
                ]);

            const ABOUT: &'static [&'static str] =
                &$crate::cc::row::concat::<{ <Self as $crate::cc::row::Words>::WORDS }>(&[
                    $($crate::cc::row::own_or(
                        <$t as $crate::cc::row::Words>::ABOUT,
                        &[concat!($($doc),*).trim_ascii()],
                    )),+
                ]);

            fn put(&self, words: &mut Vec<u64>) {
                $($crate::cc::row::Words::put(&self.$f, words);)+
            }

            fn take(words: &mut impl Iterator<Item = u64>) -> Option<Self> {
                Some(Self { $($f: $crate::cc::row::Words::take(words)?),+ })
            }
        }

        impl $name {
            /// Names of the words in row order.
            pub const FIELDS: &'static [&'static str] = <Self as $crate::cc::row::Words>::FIELDS;

            /// What each word is, as the documentation of its field says; empty without one.
            pub const ABOUT: &'static [&'static str] = <Self as $crate::cc::row::Words>::ABOUT;

            /// The row, in the order of the fields.
            pub fn words(&self) -> Vec<u64> {
                let mut words = Vec::with_capacity(Self::FIELDS.len());
                $crate::cc::row::Words::put(self, &mut words);
                words
            }

            /// Reads a row back. `None` when it does not have exactly the words of all fields, or when a word is no
            /// value of its field.
            pub fn from_words(words: &[u64]) -> Option<Self> {
                if words.len() != Self::FIELDS.len() { return None; }
                $crate::cc::row::Words::take(&mut words.iter().copied())
            }
        }
    };
}
pub(crate) use row;

#[cfg(test)]
mod tests {
    word! {
    /// A colour.
    pub enum Colour {
        /// As grass.
        #[default]
        Green = 0,
        /// As blood.
        Red = 1,
    }
    }

    row! {
    /// A part.
    pub struct Part "part_" {
        /// Its colour.
        colour: Colour,
        /// Its size.
        size: u64 = 7,
    }
    }

    row! {
    /// A whole.
    pub struct Whole {
        /// Whether it is.
        is: bool,
        /// One part.
        part: Part,
        /// Another.
        other: Part as ["other_hue", "other_size"],
    }
    }

    #[test]
    fn parts_are_flattened_under_their_names() {
        assert_eq!(Whole::FIELDS, ["is", "part_colour", "part_size", "other_hue", "other_size"]);
        assert_eq!(Whole::ABOUT, ["Whether it is.", "Its colour.", "Its size.", "Its colour.", "Its size."]);
        let whole = Whole::default();
        assert_eq!(whole.words(), [0, 0, 7, 0, 7]);
        let whole = Whole { is: true, other: Part { colour: Colour::Red, size: 3 }, ..whole };
        assert_eq!(whole.words(), [1, 0, 7, 1, 3]);
        assert_eq!(Whole::from_words(&whole.words()), Some(whole));
        assert_eq!((Part::FIELDS, Part::ABOUT), (&Whole::FIELDS[1..3], &Whole::ABOUT[1..3]));
        assert_eq!(Part::from_words(&whole.other.words()), Some(whole.other));
    }

    #[test]
    fn a_word_that_is_no_value_makes_no_row() {
        assert_eq!(Whole::from_words(&[2, 0, 7, 0, 7]), None);
        assert_eq!(Whole::from_words(&[1, 2, 7, 0, 7]), None);
        assert_eq!(Whole::from_words(&[1, 0, 7, 0]), None);
        assert_eq!(Whole::from_words(&[1, 0, 7, 0, 7, 0]), None);
    }
}
