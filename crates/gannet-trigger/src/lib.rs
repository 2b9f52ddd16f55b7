//! Trigger primitives, activities, candidates and decisions: state and time limits around the kernels.
