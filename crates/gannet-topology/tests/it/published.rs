//! The set-ups of published measurements: what was fitted comes out, and what was not is predicted.

use gannet_topology::{Path, Prediction, TopologyFile};

fn predictions(text: &str) -> Vec<Prediction> {
    let file: TopologyFile = toml::from_str(text).unwrap();
    file.paths().unwrap().iter().map(Path::predict).collect()
}

fn offload() -> Vec<Prediction> {
    predictions(include_str!("../../../../examples/topology/offload.toml"))
}

/// Rates of PUT and GET, GB/s.
fn rates(prediction: &Prediction) -> [f64; 2] {
    [&prediction.put, &prediction.get].map(|rate| rate.as_ref().unwrap().gbyte_per_s())
}

#[track_caller]
fn within(found: f64, published: f64, share: f64) {
    assert!((found / published - 1.0).abs() <= share, "{found} is not {published}");
}

#[test]
fn host_to_host_comes_out_near_the_peak_without_calibration() {
    let path = &offload()[0];
    rates(path).into_iter().for_each(|rate| within(rate, 12.42, 1e-3));
    let put = path.put.as_ref().unwrap();
    assert!(put.limit.hop.starts_with("the wire (InfiniBand, 100 Gbit/s"), "{put:?}");
    let next = put.runner_up.as_ref().unwrap();
    assert!(next.hop.starts_with("the slot at B"), "{next:?}");
    assert!(put.limit.calibrated.is_none() && next.calibrated.is_none());
}

#[test]
fn what_was_fitted_comes_out_and_says_that_it_was_fitted() {
    let paths = offload();
    for (path, published) in [(&paths[1], [4.8, 1.2]), (&paths[2], [10.0, 8.9])] {
        for (rate, published) in rates(path).into_iter().zip(published) {
            within(rate, published, 1e-3);
        }
        for rate in [&path.put, &path.get] {
            assert!(rate.as_ref().unwrap().limit.calibrated.is_some(), "{path:?}");
        }
        assert_eq!(path.sentence.matches("calibrated to the published").count(), 2, "{path:?}");
    }
    let put = paths[2].put.as_ref().unwrap();
    assert!(put.runner_up.as_ref().unwrap().hop.starts_with("the wire"), "{put:?}");
}

#[test]
fn the_slower_clock_is_predicted_unseen() {
    let path = &offload()[3];
    let [put, get] = rates(path);
    within(put, 7.6, 0.15);
    within(get, 7.1, 0.15);
    for rate in [&path.put, &path.get] {
        let limit = &rate.as_ref().unwrap().limit;
        assert_eq!(limit.hop, "the port of its memory (256 bits at 250 MHz)");
        assert_eq!(limit.calibrated, None);
    }
    assert!(path.sentence.contains("; next would be the switch"), "{}", path.sentence);
}

#[test]
fn the_stencil_visit_takes_its_parts_one_after_the_other() {
    let paths = offload();
    let visit = paths[1].visit.unwrap();
    within(visit.total_s, 4.57, 0.15);
    within(visit.put_s, 4.0 / 4.8, 1e-3);
    within(visit.get_s, 4.0 / 1.2, 1e-3);
    within(visit.compute_s, 4.0 / 7.2, 1e-9);
    within(paths[2].visit.unwrap().total_s, 1.40, 0.01);
    assert!(paths[1].sentence.contains("4.00 GB put in 0.83 s"), "{}", paths[1].sentence);
}

#[test]
fn a_torus_link_comes_out_as_published() {
    let path = &predictions(include_str!("../../../../examples/topology/torus-link.toml"))[0];
    rates(path).into_iter().for_each(|rate| within(rate, 2.2, 0.01));
    assert!(path.put.as_ref().unwrap().limit.hop.starts_with("the torus link"));
}
