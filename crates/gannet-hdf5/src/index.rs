//! The index of the root group of a closed file: its members in the order of their names, in a tree.
//!
//! ```text
//! local heap     "HEAP" | 0 (4) | bytes of names | no free space (1) | address of names | names
//! symbol nodes   "SNOD" | version (1) | 0 | members (2) | 8 x member
//!   member       place of name (8) | address of object (8) | 0 (24)
//! tree nodes     "TREE" | of a group (0) | level | children (2) | left (8) | right (8)
//!                | 32 x (key (8) | child (8)) | key (8)
//! ```
//!
//! Names end with NUL and lie on 8 bytes; the first one is empty. A key is the place of the last name
//! before it and of no name after it. At level 0 children are symbol nodes.
//!
//! Source: HDF5 File Format Specification 3.0, sections III.A.1, III.B, III.C and III.D.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use hdf5_pure::{FormatError, Source};

use crate::{UNDEFINED, message, object};

/// Most children of a tree node, and most members of a symbol node: what a superblock without an
/// extension says by saying nothing.
const CHILDREN_MAX: usize = 32;
const MEMBERS_MAX: usize = 8;

const HEAP_LEN: usize = 32;
const TREE_HEADER: usize = 24;
const TREE_LEN: usize = TREE_HEADER + CHILDREN_MAX * 16 + 8;
const SYMBOL_HEADER: usize = 8;
const MEMBER_LEN: usize = 40;
const SYMBOL_LEN: usize = SYMBOL_HEADER + MEMBERS_MAX * MEMBER_LEN;
/// Version and flags of the object header of a group with an index, and its first message, as far as
/// they are always the same.
const GROUP: [u8; 6] = *b"OHDR\x02\x02";
const TABLE: [u8; 4] = [17, 16, 0, 0];

/// Bytes at an address, which [`encode`] makes.
pub struct Encoded {
    /// The index, and the object header of the root behind it.
    pub bytes: Vec<u8>,
    /// Address of that object header.
    pub root: u64,
}

/// An index of these members, and a root group with it and these attribute messages, for the
/// address `start`.
pub fn encode(members: &BTreeMap<String, u64>, attributes: &[u8], start: u64) -> Encoded {
    let (names, places) = names(members);
    let heap = start.next_multiple_of(8);
    let mut bytes = vec![0; (heap - start) as usize];
    bytes.extend(b"HEAP\0\0\0\0");
    for number in [names.len() as u64, 1, heap + HEAP_LEN as u64] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(names);

    let members: Vec<_> = places.into_iter().zip(members.values().copied()).collect();
    let mut nodes = Vec::new();
    for members in members.chunks(MEMBERS_MAX) {
        let last = members[members.len() - 1].0;
        nodes.push((last, start + bytes.len() as u64));
        symbol_node(members, &mut bytes);
    }
    let mut level = 0;
    loop {
        nodes = tree_nodes(level, &nodes, start, &mut bytes);
        if nodes.len() == 1 {
            break;
        }
        level += 1;
    }
    let root = start + bytes.len() as u64;
    let table = message::symbol_table(nodes[0].1, heap);
    let messages = [&table, &message::attribute_info()[..], attributes].concat();
    bytes.extend(object::header(&messages));
    Encoded { bytes, root }
}

/// The names in one piece, and the place of each in it.
fn names(members: &BTreeMap<String, u64>) -> (Vec<u8>, Vec<u64>) {
    let mut names = vec![0; 8];
    let places = members.keys().map(|name| {
        let place = names.len();
        names.extend(name.as_bytes());
        names.resize((place + name.len() + 1).next_multiple_of(8), 0);
        place as u64
    });
    let places = places.collect();
    (names, places)
}

fn symbol_node(members: &[(u64, u64)], bytes: &mut Vec<u8>) {
    let end = bytes.len() + SYMBOL_LEN;
    bytes.extend(b"SNOD\x01\0");
    bytes.extend((members.len() as u16).to_le_bytes());
    for (name, object) in members {
        bytes.extend(name.to_le_bytes());
        bytes.extend(object.to_le_bytes());
        bytes.extend([0; MEMBER_LEN - 16]);
    }
    bytes.resize(end, 0);
}

/// Adds the nodes of a level, at least one, whose children end with the names at the first and lie at
/// the second of each pair; returns the same of these nodes.
fn tree_nodes(
    level: u8,
    children: &[(u64, u64)],
    start: u64,
    bytes: &mut Vec<u8>,
) -> Vec<(u64, u64)> {
    let count = children.len().div_ceil(CHILDREN_MAX).max(1);
    let first = start + bytes.len() as u64;
    let address = |node: usize| first + (node * TREE_LEN) as u64;
    let mut last_name = 0;
    let node = |node: usize| {
        let (from, to) = (node * CHILDREN_MAX, (node + 1) * CHILDREN_MAX);
        let children = &children[from..to.min(children.len())];
        let end = bytes.len() + TREE_LEN;
        bytes.extend(b"TREE\0");
        bytes.push(level);
        bytes.extend((children.len() as u16).to_le_bytes());
        let left = if node == 0 { UNDEFINED } else { address(node - 1) };
        let right = if node + 1 == count { UNDEFINED } else { address(node + 1) };
        for number in [left, right, last_name] {
            bytes.extend(number.to_le_bytes());
        }
        for (name, child) in children {
            bytes.extend(child.to_le_bytes());
            bytes.extend(name.to_le_bytes());
            last_name = *name;
        }
        bytes.resize(end, 0);
        (last_name, address(node))
    };
    (0..count).map(node).collect()
}

/// The index of a file that has one.
#[derive(Clone, Copy, Debug)]
pub struct Index {
    tree: u64,
    names: u64,
    names_len: u64,
}

impl Index {
    /// The index of the group whose object header lies at `root`; `None` when it has no index of this
    /// form.
    pub fn of(source: &dyn Source, root: u64) -> Option<Self> {
        let header = source.read_exact_at(root, 30).ok()?;
        if header[..6] != GROUP || header[10..14] != TABLE {
            return None;
        }
        let [tree, heap] = [word(&header, 14), word(&header, 22)];
        let header = source.read_exact_at(heap, HEAP_LEN).ok()?;
        let is_heap = header[..8] == *b"HEAP\0\0\0\0";
        is_heap.then(|| Self { tree, names_len: word(&header, 8), names: word(&header, 24) })
    }

    /// Address of the member `name`, if there is one, by as many reads as the tree is high.
    ///
    /// # Errors
    /// When a node cannot be read or is none.
    pub fn find(&self, source: &dyn Source, name: &str) -> Result<Option<u64>, FormatError> {
        let mut node = TreeNode::read(source, self.tree)?;
        loop {
            let at = self.search(source, name, node.count, |child| node.last_name(child))?;
            let (Ok(at) | Err(at)) = at;
            if at == node.count {
                return Ok(None);
            }
            let child = node.child(at);
            if node.level == 0 {
                let node = SymbolNode::read(source, child)?;
                let at = self.search(source, name, node.count, |member| node.name(member))?;
                return Ok(at.ok().map(|at| node.object(at)));
            }
            node = TreeNode::read_below(source, child, node.level)?;
        }
    }

    /// Names and addresses of all members.
    ///
    /// # Errors
    /// When a node cannot be read or is none, or there are more than the file has room for.
    pub fn members(&self, source: &dyn Source) -> Result<Vec<(String, u64)>, FormatError> {
        let len = usize::try_from(self.names_len).unwrap_or(usize::MAX);
        let names = source.read_exact_at(self.names, len)?;
        let mut members = Vec::new();
        let mut nodes = vec![TreeNode::read(source, self.tree)?];
        // Each node has its own place in the file, unless it is damaged.
        let mut nodes_left = source.len() / SYMBOL_LEN as u64;
        while let Some(node) = nodes.pop() {
            let children = (0..node.count).map(|at| node.child(at));
            nodes_left = nodes_left
                .checked_sub(node.count as u64)
                .ok_or(FormatError::InvalidBTreeNodeType(node.level))?;
            if node.level > 0 {
                // From behind, so that the first is the next to be taken.
                for child in children.rev() {
                    nodes.push(TreeNode::read_below(source, child, node.level)?);
                }
                continue;
            }
            for child in children {
                let node = SymbolNode::read(source, child)?;
                for at in 0..node.count {
                    let text = usize::try_from(node.name(at)).ok().and_then(|at| names.get(at..));
                    let text = text.and_then(|text| text.split(|byte| *byte == 0).next());
                    let name = text.and_then(|text| str::from_utf8(text).ok());
                    let name = name.ok_or(FormatError::InvalidLocalHeapSignature)?;
                    members.push((name.to_owned(), node.object(at)));
                }
            }
        }
        Ok(members)
    }

    /// Where `name` is among `count` names in order, or where it would be.
    fn search(
        &self,
        source: &dyn Source,
        name: &str,
        count: usize,
        place: impl Fn(usize) -> u64,
    ) -> Result<Result<usize, usize>, FormatError> {
        let (mut from, mut to) = (0, count);
        while from < to {
            let middle = from.midpoint(to);
            match self.compare(source, place(middle), name)? {
                Ordering::Less => from = middle + 1,
                Ordering::Equal => return Ok(Ok(middle)),
                Ordering::Greater => to = middle,
            }
        }
        Ok(Err(from))
    }

    /// The order of the stored name at `place` and `name`.
    fn compare(
        &self,
        source: &dyn Source,
        place: u64,
        name: &str,
    ) -> Result<Ordering, FormatError> {
        let rest = self.names_len.saturating_sub(place);
        let len = rest.min(name.len() as u64 + 1) as usize;
        let stored = source.read_exact_at(self.names.saturating_add(place), len)?;
        let stored = stored.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(stored.cmp(name.as_bytes()))
    }
}

/// A node above the symbol nodes.
struct TreeNode {
    bytes: Vec<u8>,
    level: u8,
    count: usize,
}

impl TreeNode {
    fn read(source: &dyn Source, address: u64) -> Result<Self, FormatError> {
        let bytes = source.read_exact_at(address, TREE_LEN)?;
        let (level, count) = (bytes[5], usize::from(half(&bytes, 6)));
        if bytes[..5] != *b"TREE\0" || count > CHILDREN_MAX {
            return Err(FormatError::InvalidBTreeSignature);
        }
        Ok(Self { bytes, level, count })
    }

    /// Reads a child of a node at `level`, which must be one level down: no walk goes in circles.
    fn read_below(source: &dyn Source, address: u64, level: u8) -> Result<Self, FormatError> {
        let node = Self::read(source, address)?;
        if node.level == level - 1 { Ok(node) } else { Err(FormatError::InvalidBTreeSignature) }
    }

    fn child(&self, at: usize) -> u64 {
        word(&self.bytes, TREE_HEADER + 8 + at * 16)
    }

    fn last_name(&self, child: usize) -> u64 {
        word(&self.bytes, TREE_HEADER + 16 + child * 16)
    }
}

/// A node with members.
struct SymbolNode {
    bytes: Vec<u8>,
    count: usize,
}

impl SymbolNode {
    fn read(source: &dyn Source, address: u64) -> Result<Self, FormatError> {
        let bytes = source.read_exact_at(address, SYMBOL_LEN)?;
        let count = usize::from(half(&bytes, 6));
        if bytes[..6] != *b"SNOD\x01\0" || count > MEMBERS_MAX {
            return Err(FormatError::InvalidSymbolTableNodeSignature);
        }
        Ok(Self { bytes, count })
    }

    fn name(&self, at: usize) -> u64 {
        word(&self.bytes, SYMBOL_HEADER + at * MEMBER_LEN)
    }

    fn object(&self, at: usize) -> u64 {
        word(&self.bytes, SYMBOL_HEADER + at * MEMBER_LEN + 8)
    }
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
