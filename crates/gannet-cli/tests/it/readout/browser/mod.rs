//! A run as a browser shows it.

mod chromium;
mod station;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use gannet_measure::testing::skipped;
use serde_json::Value;

use crate::readout::pages::Demo;
use crate::readout::process::{alone, gannet, rounds};
use chromium::Browser;

/// The line at the top.
const LINE: &str = "document.querySelector('#summary').textContent";

/// Where pictures of the pages go, if they are wanted.
const PICTURES: &str = "GANNET_PICTURES";

#[test]
fn whoever_opens_the_address_sees_data_move() {
    let test = "whoever_opens_the_address_sees_data_move";
    let _alone = alone();
    let Some(mut browser) = Browser::open(test) else { return };
    let begin = Instant::now();
    let demo = Demo::start("60");
    let asked = Instant::now();
    browser.go(&demo.address());
    browser.wait_for(SHOWN);
    let painted = asked.elapsed();
    let line = browser.wait_for(&format!("/[1-9].*bit\\/s/.test({LINE}) && {LINE}"));
    let rate = begin.elapsed();
    assert!(line.as_str().unwrap().starts_with("RUNNING"), "{line}");
    assert_eq!(browser.evaluate("location.search"), "", "the token is in the address no more");
    browser.evaluate("location.hash = '#/signals'");
    let canvas = "document.querySelector('.signals canvas')?.toDataURL() ?? ''";
    browser.wait_for(&format!("globalThis.seen = {canvas}"));
    browser.wait_for(&format!("{canvas} !== globalThis.seen"));
    browser.wait_for(
        "fetch('/api/v1/channels').then((it) => it.json()).then((it) => it.length === 4)",
    );
    let moved = begin.elapsed();
    eprintln!(
        "painted {painted:.2?} after the request; a rate {rate:.2?}, samples that move {moved:.2?} after \
         the command"
    );
    let own = format!("http://{}/", demo.host);
    for request in browser.requests() {
        assert!(request.starts_with(&own), "{request} leaves the machine");
    }
    assert_eq!(browser.errors(), [&Value::Null; 0]);
    demo.interrupt();
    assert_eq!(demo.end().0, Some(130));
}

/// The pages that the links of the bar lead to.
const PAGES: [&str; 6] = ["overview", "signals", "triggers", "alarms", "files", "break"];

/// A page is there.
const SHOWN: &str = "document.querySelector('#main h1, #main h2') !== null";

#[test]
fn every_page_is_reached_by_the_keyboard() {
    let test = "every_page_is_reached_by_the_keyboard";
    let _alone = alone();
    let Some(mut browser) = Browser::open(test) else { return };
    let demo = Demo::start("60");
    browser.go(&demo.address());
    browser.wait_for("!document.querySelector('#break').hidden");
    let focused = "document.activeElement.getAttribute('href') ?? document.activeElement.id";
    for page in PAGES {
        let link = format!("#/{page}");
        let tabs = (0..100).find(|_| {
            browser.press("Tab");
            browser.evaluate(focused) == link.as_str()
        });
        assert!(tabs.is_some(), "no way to {page}");
        browser.press("Enter");
        browser.wait_for(&format!("location.hash === '{link}'"));
        browser.wait_for(SHOWN);
        browser.wait_for("document.activeElement.id === 'main'");
    }
    // The buttons of the last page are reached too, and do what they say.
    let fault = "document.activeElement.closest('.fault')?.querySelector('button').textContent";
    let button = (0..100).find_map(|_| {
        browser.press("Tab");
        browser.evaluate(fault).as_str().map(str::to_owned)
    });
    assert!(button.is_some(), "no button is reached");
    browser.press(" ");
    browser.wait_for("document.querySelector('.fault.on .outcome')?.textContent");
    assert_eq!(browser.errors(), [&Value::Null; 0]);
    demo.interrupt();
    demo.end();
}

/// A run of frames that are emulated in its process, which takes commands.
struct Emulated {
    child: Child,
    address: String,
}

impl Emulated {
    fn start(directory: &Path, seed: u64) -> Self {
        let text = format!(
            "[[source]]\nstreams = {{ count = 2 }}\nemulated = true\n\
             [recorder]\ndirectory = {directory:?}\n\
             [web]\nlisten = \"127.0.0.1:0\"\ncontrol = true\n\
             [emulate]\nseed = {seed}\npace = {{ rate_scale = 0.2 }}\n\
             streams = {{ count = 2 }}\n"
        );
        let config = directory.join("run.toml");
        fs::write(&config, text).unwrap();
        let mut command = Command::new(gannet());
        command.arg("run").arg(config).args(["--json", "--quiet"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            let line = line.unwrap();
            Some(line[line.find("http://")?..].trim().to_owned())
        });
        thread::spawn(move || lines.for_each(drop));
        Self { child, address: address.expect("an address") }
    }

    fn end(mut self) -> Value {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let report = self.child.stdout.take().unwrap();
        serde_json::from_reader(report).unwrap()
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// The number in `text` behind `before`, without the spaces in it.
fn number(text: &str, before: &str) -> u64 {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before:?} in {text:?}"));
    let is_part = |c: &char| c.is_ascii_digit() || c.is_whitespace();
    let digits: String = rest.chars().take_while(is_part).filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no number behind {before:?} in {text:?}"))
}

#[test]
fn the_page_tells_of_each_fault_what_the_front_end_did() {
    let test = "the_page_tells_of_each_fault_what_the_front_end_did";
    let _alone = alone();
    let Some(mut browser) = Browser::open(test) else { return };
    for seed in rounds(1, 20) {
        let directory = tempfile::tempdir().unwrap();
        let run = Emulated::start(directory.path(), seed);
        browser.go(&run.address);
        browser.wait_for("!document.querySelector('#break').hidden");
        browser.evaluate("location.hash = '#/break'");
        let titles = browser.wait_for(
            "[...document.querySelectorAll('.fault button')].map((it) => it.textContent).join('|')",
        );
        let titles: Vec<_> = titles.as_str().unwrap().split('|').map(str::to_owned).collect();
        assert!(titles.len() >= 6, "{titles:?}");
        let mut shown = Vec::new();
        for (place, title) in titles.iter().enumerate() {
            let card = format!("document.querySelectorAll('.fault')[{place}]");
            let verdict = format!("{card}.querySelector('.outcome + .quiet').textContent");
            let counts = format!(
                "Number((/counts ([0-9\\s]+)/.exec({verdict}) ?? ['', '0'])[1].replace(/\\s/g, ''))"
            );
            // Faults before it may show at the same place.
            let before = browser.evaluate(&format!(
                "fetch('/api/v1/faults').then((it) => it.json()).then((it) => it.faults[{place}].counted)"
            ));
            let clicked = Instant::now();
            browser.evaluate(&format!("{card}.querySelector('button').click()"));
            // It stands at its stage when the first frame that suffered it is counted.
            browser.wait_for(&format!("{counts} > {before}"));
            let counted = clicked.elapsed();
            browser.wait_for(&format!(
                "{card}.querySelector('.outcome').textContent.startsWith('Over')"
            ));
            browser.wait_for(&format!("/they agree/.test({verdict})"));
            let text = browser.evaluate(&verdict);
            eprintln!("seed {seed}: {title}: counted {counted:.2?} after the click; {text}");
            shown.push(text.as_str().unwrap().to_owned());
        }
        assert!(browser.evaluate(LINE).as_str().unwrap().contains("DEGRADED"));
        let report = run.end();
        assert_eq!(report["degraded"], true);
        for text in &shown {
            let (place, _) = text.split_once(" –").unwrap();
            let (stage, reason) = place.split_once(": ").unwrap();
            let stages = report["ledger"].as_array().unwrap();
            let (truth, counted) = (number(text, "did it to"), number(text, "run counts"));
            assert_eq!(truth, counted, "{text}");
            // Later faults of the same place have been added since.
            let last = shown.iter().rev().find(|text| text.starts_with(place)).unwrap();
            let (stage, reason) = (stage.replace(' ', "_"), reason.replace(' ', "_"));
            let found = stages.iter().find(|it| it["stage"] == stage.as_str());
            let dropped = found.and_then(|it| it["dropped"].as_array()).cloned();
            let drop = dropped.iter().flatten().find(|it| it["reason"] == reason.as_str());
            if let Some(drop) = drop {
                assert_eq!(drop["count"], number(last, "run counts"), "{text}: {report}");
            } else {
                let late: u64 = report["streams"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|stream| stream[&*reason].as_u64().unwrap_or(0))
                    .sum();
                assert_eq!(late, number(last, "run counts"), "{text}: {report}");
            }
        }
    }
}

#[test]
fn pictures_of_all_pages() {
    let test = "pictures_of_all_pages";
    let Some(directory) = std::env::var_os(PICTURES) else {
        return skipped(test, format!("{PICTURES} does not say where they go"));
    };
    let directory = Path::new(&directory);
    fs::create_dir_all(directory).unwrap();
    let _alone = alone();
    let Some(mut browser) = Browser::open(test) else { return };
    let demo = Demo::start("60");
    browser.go(&demo.address());
    browser.wait_for("!document.querySelector('#break').hidden");
    // So that there is something to see.
    thread::sleep(Duration::from_secs(8));
    for (size, name) in [((1280, 720), "1280x720"), ((1920, 1080), "1920x1080")] {
        for scheme in ["light", "dark"] {
            browser.shape(size, scheme);
            for page in PAGES {
                browser.evaluate(&format!("location.hash = '#/{page}'"));
                browser.wait_for(SHOWN);
                thread::sleep(Duration::from_secs(2));
                let file = directory.join(format!("{page}-{name}-{scheme}.webp"));
                fs::write(file, browser.picture()).unwrap();
            }
        }
    }
    demo.interrupt();
    demo.end();
}
