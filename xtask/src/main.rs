//! The whole check of the project, and the rules of its house.
fn main() {}
