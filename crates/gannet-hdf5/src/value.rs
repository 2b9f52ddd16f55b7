//! Values of attributes.

use std::borrow::Cow;

/// The value of an attribute: one number or one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Unsigned 32-bit number.
    U32(u32),
    /// Unsigned 64-bit number.
    U64(u64),
    /// Signed 64-bit number.
    I64(i64),
    /// UTF-8 text of any length.
    Text(Cow<'a, str>),
}

impl Value<'_> {
    /// The number, if it is one and not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::U32(number) => Some(number.into()),
            Self::U64(number) => Some(number),
            Self::I64(number) => number.try_into().ok(),
            Self::Text(_) => None,
        }
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

/// Prints the number or the text, without quotes.
impl std::fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::U32(number) => number.fmt(f),
            Self::U64(number) => number.fmt(f),
            Self::I64(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}
