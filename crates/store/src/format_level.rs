//! Levels: which kinds and versions of values a store holds.
//!
//! A store records its level. A program reads every level up to its newest one, and writes only
//! what the store's level allows. So programs of two releases can work on one store, and the older
//! one can come back, until an administrator raises the level (`penates upgrade`). A program whose
//! newest level is lower than the store's refuses the store.
//!
//! Each engine writes the level as the number of its format, so older programs refuse it too.
//!
//! To add a level: name its number here after what it allows, and make it [`FormatLevel::NEWEST`].
//! What is written only from it on compares [`crate::Store::level`] with it: in
//! [`crate::Stored::encode`], or where a feature begins. Make a fixture of the level
//! (`cargo xtask fixture`) that every later program reads.

use std::fmt;

/// A level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormatLevel(u32);

impl FormatLevel {
    /// The level of 0.1.0.
    pub const FIRST: FormatLevel = FormatLevel(1);

    /// The newest level that this program knows.
    pub const NEWEST: FormatLevel = FormatLevel::FIRST;

    /// The level with a number, counted from 1.
    pub const fn of_number(number: u32) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The level above.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for FormatLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
