//! A trigger record and its bytes.

use gannet_wire::component_request::ComponentRequest;
use gannet_wire::record::Record;
use gannet_wire::{fragment, trigger_record};

use gannet_log::{Chunk, Kind, Label};

/// One fragment: its header and the bytes it describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Header, whose size is that of header and payload.
    pub header: fragment::Repr,
    /// Whole frames, or packed trigger objects.
    pub payload: Vec<u8>,
}

/// A trigger record: header, the requests that were made for it, and the fragments that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerRecord {
    /// Header; its error bits say whether anything is missing.
    pub header: trigger_record::Repr,
    /// What was asked, of whom.
    pub requests: Vec<ComponentRequest>,
    /// The answers, one per request.
    pub fragments: Vec<Fragment>,
}

impl TriggerRecord {
    /// Header and requests in their stored form.
    pub fn header_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; trigger_record::buffer_len(self.requests.len())];
        trigger_record::emit(&self.header, &self.requests, &mut bytes);
        bytes
    }

    /// Headers of the fragments in their stored form, in order.
    pub fn fragment_header_bytes(&self) -> Vec<[u8; fragment::Fragment::HEADER_LEN]> {
        let stored = |fragment: &Fragment| {
            let mut bytes = [0; fragment::Fragment::HEADER_LEN];
            fragment.header.emit(&mut bytes);
            bytes
        };
        self.fragments.iter().map(stored).collect()
    }

    /// Whether any fragment is missing data, as the header says.
    pub fn is_incomplete(&self) -> bool {
        self.header.error_bits & trigger_record::error_bits::INCOMPLETE != 0
    }

    /// The record as a chunk of the log: header, then each fragment with its header.
    ///
    /// The payloads are moved, not copied.
    pub fn into_chunk(self) -> Chunk {
        let begin = self.requests.iter().map(|request| request.window_begin).min().unwrap_or(0);
        let end = self.requests.iter().map(|request| request.window_end).max().unwrap_or(begin);
        let missing = self.fragments.iter().filter(|f| f.header.error_bits != 0).count();
        let label = Label::new(Kind::TRIGGER_RECORD)
            .times(begin, end.max(begin))
            .counts(self.fragments.len() as u32, missing as u32);
        let headers = self.fragment_header_bytes();
        let mut parts = vec![self.header_bytes()];
        for (header, fragment) in headers.into_iter().zip(self.fragments) {
            parts.push(header.to_vec());
            parts.push(fragment.payload);
        }
        Chunk { label, parts }
    }

    /// Bytes of the record in its stored form: header, then each fragment.
    pub fn len_bytes(&self) -> usize {
        let fragments = self.fragments.iter().map(|fragment| fragment.header.size as usize);
        trigger_record::buffer_len(self.requests.len()) + fragments.sum::<usize>()
    }
}
