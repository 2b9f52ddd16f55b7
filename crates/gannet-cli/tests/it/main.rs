//! The integration tests of this crate, one module a subject.

mod bench_coincidences;
mod bench_ingest;
mod bench_latency;
mod bench_rings;
mod bench_tpg;
mod channels;
mod check;
mod configurations;
mod doctor;
mod examples;
mod files;
mod finding;
mod formats_page;
mod log_files;
mod packaging;
mod quotes;
mod readout;
mod rich;
mod rich_level0;
mod sending;
mod slow_control;
mod standard_streams;
mod sys;
mod torus;
mod tutorial;
mod typed;
