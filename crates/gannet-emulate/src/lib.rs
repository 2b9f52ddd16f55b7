//! Front ends as generators of true formats with physics-like content, seeded and paced.
