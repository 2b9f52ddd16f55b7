//! Trigger records: the answers of all streams to one decision, put together.

mod builder;
mod encode;
mod stored;

pub use builder::{
    Attachment, BuildConfig, RecordBuilder, RecordDrop, RecordRequest, StreamSource,
};
pub use encode::{Fragment, TriggerRecord};
pub use stored::{StoredFragments, StoredRecord};
