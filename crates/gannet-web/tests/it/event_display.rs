//! Event displays of a demonstration, as programs ask for them, beside what its front end put in.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use gannet_control::config::{self, SourceInput};
use gannet_control::detector::Detector;
use gannet_control::emulation::{EventSink, Target};
use gannet_control::run::Run;
use gannet_dune::detector::DUNE_TPC;
use gannet_web::{Access, Content, Site};
use serde_json::Value;

/// Tracks that are compared.
const TRACKS: usize = 50;
/// How far the begin of a primitive may be from the peak that was put in, in ticks.
const MARGIN: u64 = 2000;
/// Peaks above this are found, whatever the noise; the threshold is 60.
const CLEAR_PEAK: u64 = 120;
/// How long it may take on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a front end put in: the hits of each event, as time, channel and peak.
#[derive(Clone)]
struct PutIn {
    is_track: bool,
    hits: Vec<(u64, u64, u64)>,
}

/// What was shown of a decision.
struct Shown {
    begin: u64,
    end: u64,
    channels: BTreeSet<u64>,
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The status of the answer to `path`, and what it says.
fn ask(site: &Site, path: &str) -> (u16, Value) {
    let request = format!("GET /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let answer = String::from_utf8(site.answer(request.as_bytes())).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}")))
}

/// What is shown of a record, once all of it has come.
fn shown(site: &Site, record: u64) -> Option<Shown> {
    let (status, event) = ask(site, &format!("records/{record}"));
    if status == 410 {
        // It began before anybody looked.
        return Some(Shown { begin: 0, end: 0, channels: BTreeSet::new() });
    }
    assert_eq!(status, 200, "{event}");
    if event["is_complete"] == false {
        return None;
    }
    assert_eq!(event["kept"], event["seen"], "a demonstration has less than is kept");
    let (begin, end) = (number(&event["decision"]["begin"]), number(&event["decision"]["end"]));
    assert_eq!(number(&event["from"]), begin);
    assert_eq!(event["decision"]["kind"], "HorizontalMuon");
    let channels: BTreeSet<_> =
        event["primitives"]["channel"].as_array().unwrap().iter().map(number).collect();
    // Activities lie where there are primitives.
    let activities = event["activities"].as_array().unwrap();
    assert!(!activities.is_empty(), "{event}");
    for activity in activities {
        let (first, last) = (number(&activity["channel_first"]), number(&activity["channel_last"]));
        assert!(channels.contains(&first) || activity["begin"].as_i64() < Some(0), "{activity}");
        assert!(last - first >= 15, "{activity}");
    }
    Some(Shown { begin, end, channels })
}

#[test]
fn the_channels_of_a_track_are_those_that_the_front_end_put_it_into() {
    let mut plan =
        config::parse("demo.toml", DUNE_TPC.demonstration(), Path::new("."), &[&DUNE_TPC]).unwrap();
    plan.settings.recorder.enabled = false;
    for source in &mut plan.sources {
        if let SourceInput::Udp(udp) = &mut source.input {
            udp.listen.iter_mut().for_each(|address| address.set_port(0));
        }
    }
    let run = Run::configure(&plan).unwrap();
    let site = Site::new(run.views(), Access::Loopback, Content::Pages);
    assert_eq!(ask(&site, "records/1").1["code"], "nothing-yet");
    run.start().unwrap();
    let put_in = Arc::<Mutex<Vec<PutIn>>>::default();
    let told = Arc::clone(&put_in);
    let sink: EventSink = Box::new(move |event| {
        let mut text = Vec::new();
        event.write_json(&mut text).unwrap();
        let event_told: Value = serde_json::from_slice(&text).unwrap();
        let hits = event_told["hits"].as_array().unwrap().iter();
        let hits = hits
            .map(|hit| (number(&hit["time"]), number(&hit["channel"]), number(&hit["adc_peak"])));
        told.lock()
            .unwrap()
            .push(PutIn { is_track: event.kind() == "track", hits: hits.collect() });
    });
    let target = Target {
        receivers: vec![run.addresses()[0].into(); plan.detector.emulated().len()],
        frames: None,
        flow_control: Some(run.flow_control()),
        faults: None,
    };
    let emulation = plan.detector.front_end().unwrap().start(&target, Some(sink)).unwrap();
    let begin = Instant::now();
    let mut seen = BTreeMap::new();
    let tracks = |put_in: &[PutIn]| put_in.iter().filter(|event| event.is_track).count();
    // Tracks are put in a little before they are decided on.
    while tracks(&put_in.lock().unwrap()) < TRACKS + 20 || seen.len() < TRACKS {
        assert!(begin.elapsed() < PATIENCE, "{} records", seen.len());
        let (status, decisions) = ask(&site, "decisions?last=200");
        assert_eq!(status, 200, "{decisions}");
        for decision in decisions["decisions"].as_array().unwrap() {
            let record = number(&decision["number"]);
            if !seen.contains_key(&record)
                && let Some(shown) = shown(&site, record)
            {
                seen.insert(record, shown);
            }
        }
        thread::sleep(Duration::from_millis(50));
    }
    let newest = *seen.keys().next_back().unwrap();
    let (status, unknown) = ask(&site, &format!("records/{}", newest + 1_000_000));
    assert_eq!((status, &unknown["code"]), (404, &Value::from("unknown-record")));
    assert!(unknown["detail"].as_str().unwrap().contains("the nearest is"), "{unknown}");
    // One that all streams have passed, as a page asks for it behind a waveform.
    let (_, last) = ask(&site, "primitives?last=2000");
    let column = |name: &str| number(&last["primitives"][name][0]);
    let (channel, from, charge) = (column("channel"), number(&last["from"]), column("charge"));
    let path = format!("primitives?channel={channel}&from={from}&to={}", from + 1);
    let (status, same) = ask(&site, &path);
    assert_eq!((status, &same["primitives"]["charge"][0]), (200, &Value::from(charge)), "{same}");
    emulation.stop();
    emulation.join().unwrap();
    run.drain();

    let put_in = put_in.lock().unwrap();
    let hits = || put_in.iter().flat_map(|event| &event.hits);
    let mut exact = 0;
    for (record, Shown { begin, end, channels }) in seen.iter().filter(|(_, it)| it.end > 0) {
        let clear: BTreeSet<_> = hits()
            .filter(|(time, _, peak)| {
                (begin + MARGIN..end - MARGIN).contains(time) && *peak > CLEAR_PEAK
            })
            .map(|(_, channel, _)| *channel)
            .collect();
        let possible: BTreeSet<_> = hits()
            .filter(|(time, ..)| (begin - MARGIN..end + MARGIN).contains(time))
            .map(|(_, channel, _)| *channel)
            .collect();
        let (missing, invented): (Vec<_>, Vec<_>) =
            (clear.difference(channels).collect(), channels.difference(&possible).collect());
        assert!(missing.is_empty(), "record {record}: {missing:?} were put in and are not shown");
        assert!(invented.is_empty(), "record {record}: {invented:?} were not put in");
        exact += usize::from(*channels == clear);
    }
    // Each track as a whole, by the numbers of its channels.
    let (mut compared, mut whole) = (0, 0);
    let first = seen.values().filter(|it| it.end > 0).map(|it| it.begin).min().unwrap();
    for track in put_in.iter().filter(|event| event.is_track && event.hits[0].0 > first) {
        if compared == TRACKS {
            break;
        }
        let (from, to) = track
            .hits
            .iter()
            .fold((u64::MAX, 0), |(from, to), (time, ..)| (from.min(*time), to.max(*time)));
        let own: BTreeSet<_> = track.hits.iter().map(|(_, channel, _)| *channel).collect();
        let records = seen.values().filter(|it| it.begin <= to && it.end > from);
        let shown: BTreeSet<_> = records.flat_map(|it| &it.channels).copied().collect();
        compared += 1;
        whole += usize::from(own.is_subset(&shown));
        assert!(own.is_subset(&shown), "of {own:?} there were {shown:?}");
    }
    println!("{compared} tracks compared, {whole} whole; {exact} of {} records exact", seen.len());
    assert_eq!((compared, whole), (TRACKS, TRACKS));
}
