//! Whole machines, and files that are none.

mod half_present;
mod published;
mod trees;
