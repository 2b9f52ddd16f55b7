//! The node of a torus for programs in C: PUT and GET between processes of its hosts.
//!
//! Ten functions, which `include/gannet_torus.h` declares and describes; behind each is a method of
//! [`User`](gannet_fabric::torus::user::User). The library is `libgannet_torus_c`, shared or static.

mod handle;
mod sys;
