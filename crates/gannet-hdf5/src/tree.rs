//! A group to be written: its attributes, data sets and sub-groups.

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::message::{NAME_MAX, TextPlace};
use crate::value::Value;
use crate::{heap, message, object};

/// A group to be written, made of borrowed parts.
///
/// A data set is a list of slices that follow each other in the file; its shape is [N, 1] and
/// its type a signed byte.
#[derive(Debug, Default)]
pub struct Group<'a> {
    attributes: Vec<(&'a str, Value<'a>)>,
    data_sets: Vec<(&'a str, &'a [&'a [u8]])>,
    groups: Vec<(&'a str, Group<'a>)>,
}

impl<'a> Group<'a> {
    /// A group without content.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an attribute.
    pub fn attribute(&mut self, name: &'a str, value: Value<'a>) {
        self.attributes.push((name, value));
    }

    /// Adds a data set, whose bytes are those of the slices one after the other.
    pub fn data_set(&mut self, name: &'a str, parts: &'a [&'a [u8]]) {
        self.data_sets.push((name, parts));
    }

    /// Adds a sub-group.
    pub fn group(&mut self, name: &'a str, group: Group<'a>) {
        self.groups.push((name, group));
    }

    /// Tests all names and texts below this group.
    pub(crate) fn check(&self) -> Result<()> {
        check_attributes(&self.attributes)?;
        let data_sets = self.data_sets.iter().map(|(name, _)| *name);
        check_names(data_sets.chain(self.groups.iter().map(|(name, _)| *name)))?;
        self.groups.iter().try_for_each(|(_, group)| group.check())
    }

    /// The slices of all data sets below, in the order in which they are to lie in the file.
    pub(crate) fn slices(&self, slices: &mut Vec<&'a [u8]>) {
        slices.extend(self.data_sets.iter().flat_map(|(_, parts)| *parts).copied());
        self.groups.iter().for_each(|(_, group)| group.slices(slices));
    }

    /// Places the object headers of everything below; returns the address of this group.
    ///
    /// `data` is the address of the first of [`slices`](Self::slices), and afterwards the
    /// address behind the last.
    pub(crate) fn place(&self, data: &mut u64, metadata: &mut Metadata) -> Result<u64> {
        let mut messages = message::group();
        for (name, parts) in &self.data_sets {
            let size = parts.iter().map(|part| part.len() as u64).sum();
            let address = metadata.place(&object::data_set(*data, size));
            messages.extend(message::link(name, address));
            *data += size;
        }
        for (name, group) in &self.groups {
            let address = group.place(data, metadata)?;
            messages.extend(message::link(name, address));
        }
        for attribute in place_attributes(&self.attributes, metadata)? {
            messages.extend(attribute);
        }
        Ok(metadata.place(&object::header(&messages)))
    }
}

/// Metadata on their way to the file, at addresses that are known already.
pub struct Metadata {
    start: u64,
    bytes: Vec<u8>,
}

impl Metadata {
    /// No metadata yet; the first will lie at `start`.
    pub fn new(start: u64) -> Self {
        Self { start, bytes: Vec::new() }
    }

    /// Adds a piece; returns its address.
    pub fn place(&mut self, piece: &[u8]) -> u64 {
        let address = self.end();
        self.bytes.extend(piece);
        address
    }

    /// Address behind the last piece.
    pub fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// All pieces.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Places the texts of attributes; returns the attribute messages.
pub fn place_attributes(
    attributes: &[(&str, Value<'_>)],
    metadata: &mut Metadata,
) -> Result<Vec<Vec<u8>>> {
    let texts: Vec<_> = attributes.iter().filter_map(|(_, value)| value.as_text()).collect();
    let mut place = TextPlace { collection: metadata.end(), number: 0 };
    if !texts.is_empty() {
        metadata.place(&heap::collection(&texts)?);
    }
    let message = |(name, value): &(&str, Value<'_>)| {
        place.number += u32::from(value.as_text().is_some());
        message::attribute(name, value, place)
    };
    Ok(attributes.iter().map(message).collect())
}

/// Tests the names and texts of attributes.
pub fn check_attributes(attributes: &[(&str, Value<'_>)]) -> Result<()> {
    check_names(attributes.iter().map(|(name, _)| *name))?;
    let bad = |text: &str| text.contains('\0') || u32::try_from(text.len()).is_err();
    match attributes.iter().find(|(_, value)| value.as_text().is_some_and(bad)) {
        Some((name, _)) => Err(Error::Text { name: name.to_string() }),
        None => Ok(()),
    }
}

/// Tests one name.
pub fn check_name(name: &str) -> Result<()> {
    let bad = name.is_empty() || name.len() > NAME_MAX || name == "." || name.contains(['/', '\0']);
    if bad {
        return Err(Error::Name { name: name.to_owned(), max: NAME_MAX });
    }
    Ok(())
}

fn check_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen = HashSet::new();
    for name in names {
        check_name(name)?;
        if !seen.insert(name) {
            return Err(Error::Duplicate { name: name.to_owned() });
        }
    }
    Ok(())
}
