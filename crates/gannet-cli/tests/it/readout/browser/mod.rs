//! A run as a browser shows it.

mod chromium;
mod station;

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use gannet_measure::testing::skipped;
use serde_json::Value;

use crate::readout::pages::Demo;
use crate::readout::process::{alone, rounds};
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
const PAGES: [&str; 8] =
    ["overview", "signals", "triggers", "history", "alarms", "files", "hardware", "break"];

/// Views of pages that have several, for pictures.
const VIEWS: [(&str, &str); 2] =
    [("signals?view=waterfall", "waterfall"), ("signals?view=spectrum", "spectrum")];

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

#[test]
fn signals_are_seen_in_three_ways_and_the_past_in_any_figure() {
    let test = "signals_are_seen_in_three_ways_and_the_past_in_any_figure";
    let _alone = alone();
    let Some(mut browser) = Browser::open(test) else { return };
    let demo = Demo::start("60");
    browser.go(&demo.address());
    browser.wait_for(SHOWN);
    browser.evaluate("location.hash = '#/signals'");
    let caption = "document.querySelector('#main figcaption')?.textContent ?? ''";
    for (view, says) in
        [("Waterfall", "64 channels"), ("Spectrum", "Hann window"), ("Waveform", "pedestal")]
    {
        let button = format!(
            "[...document.querySelectorAll('.choice button')].find((it) => it.textContent === '{view}')"
        );
        browser.wait_for(&format!(
            "{button} !== undefined && document.querySelector('select').options.length > 0"
        ));
        browser.evaluate(&format!("{button}.click()"));
        browser.wait_for(&format!("({caption}).includes('{says}')"));
        let pressed = browser.evaluate(&format!("{button}.getAttribute('aria-pressed')"));
        assert_eq!(pressed, "true", "{view}");
        // The address shows the same to whoever opens it.
        let address = browser.evaluate("location.hash");
        let address = address.as_str().unwrap();
        assert_eq!(address.contains("view="), view != "Waveform", "{address}");
    }
    browser.evaluate("location.hash = '#/history?f=frames&f=lost&span=60'");
    let captions = "[...document.querySelectorAll('.courses figcaption')].map((it) => it.textContent).join('|')";
    browser.wait_for(&format!("/^frames [1-9].*\\|lost /.test({captions})"));
    browser.evaluate(
        "(() => { const add = document.querySelector('#main select'); add.value = 'records'; \
         add.dispatchEvent(new Event('change')); })()",
    );
    browser.wait_for(&format!("/records/.test({captions})"));
    let address = browser.evaluate("location.hash");
    assert!(address.as_str().unwrap().contains("f=records"), "{address}");
    assert_eq!(browser.errors(), [&Value::Null; 0]);
    demo.interrupt();
    demo.end();
}

/// What a browser would do if it took a text for a page.
const SCRIPT: &str = "<img src=x onerror=document.title='taken'>";

/// That no page has taken a text for a part of itself.
fn assert_text_stays_text(browser: &mut Browser) {
    assert_eq!(browser.evaluate("document.querySelector('#main img, #main script')"), Value::Null);
    assert_ne!(browser.evaluate("document.title"), "taken");
}

#[test]
fn an_alarm_is_read_and_acknowledged_by_the_keyboard() {
    let test = "an_alarm_is_read_and_acknowledged_by_the_keyboard";
    let _alone = alone();
    let Some(mut browser) = Browser::open(test) else { return };
    let rule = format!(
        "[[alarm]]\nname = \"hall {SCRIPT}\"\nfigure = \"frames\"\nabove = 0.0\nhold = \"0 s\"\n\
         meaning = \"{SCRIPT} is hot.\"\nadvice = \"Cool {SCRIPT}.\"\n"
    );
    let run = Demo::emulated(1, "", "pace = { rate_scale = 0.2 }", &rule);
    browser.go(&run.address());
    browser.wait_for(SHOWN);
    browser.evaluate("location.hash = '#/alarms'");
    let card = "document.querySelector('.alarm')";
    let text = browser.wait_for(&format!("{card}?.innerText"));
    let text = text.as_str().unwrap();
    for told in ["hall <img", "> is hot.", "Cool <img", "Since "] {
        assert!(text.contains(told), "{told}: {text}");
    }
    assert_text_stays_text(&mut browser);
    browser.wait_for("/\\([1-9]/.test(document.querySelector('#alarm-count').textContent)");
    let focused = format!(
        "document.activeElement.closest('.alarm') === {card} && document.activeElement.tagName"
    );
    let found = (0..100).any(|_| {
        browser.press("Tab");
        browser.evaluate(&focused) == "BUTTON"
    });
    assert!(found, "the button is not reached");
    browser.press(" ");
    browser.wait_for(&format!("/Seen by 127.0.0.1 at/.test({card}.innerText)"));
    browser.wait_for(&format!("{card}.querySelector('button').hidden"));
    let rules = "document.querySelector('[aria-label=Rules]')?.innerText ?? ''";
    browser.wait_for(&format!("({rules}).includes('disk_left')"));
    assert_eq!(browser.errors(), [&Value::Null; 0]);
    run.interrupt();
    run.end();
}

/// The first number in `text` behind `before`, without the spaces in it.
fn number(text: &str, before: &str) -> u64 {
    let is_part = |c: &char| c.is_ascii_digit() || c.is_whitespace();
    let digits = |(place, _): (usize, &str)| -> Option<u64> {
        let rest = text[place + before.len()..].chars().take_while(is_part);
        rest.filter(char::is_ascii_digit).collect::<String>().parse().ok()
    };
    let found = text.match_indices(before).find_map(digits);
    found.unwrap_or_else(|| panic!("no number behind {before:?} in {text:?}"))
}

/// A card of the page *Break it*, by its place.
struct Card(usize);

impl Card {
    fn part(&self, what: &str) -> String {
        format!("document.querySelectorAll('.fault')[{}].querySelector('{what}')", self.0)
    }

    /// Clicks the button, waits until the fault is over and the page says that its figures agree, and gives what it says.
    /// Also how long the first of what the fault did took to be counted on the page.
    fn break_it(&self, browser: &mut Browser) -> (String, Duration) {
        let verdict = format!("{}.textContent", self.part(".outcome + .quiet"));
        let counts = format!(
            "Number((/counts ([0-9\\s]+)/.exec({verdict}) ?? ['', '0'])[1].replace(/\\s/g, ''))"
        );
        // Faults before it may show at the same place.
        let before = browser.evaluate(&format!(
            "fetch('/api/v1/faults').then((it) => it.json()).then((it) => it.faults[{}].counted)",
            self.0
        ));
        let clicked = Instant::now();
        browser.evaluate(&format!("{}.click()", self.part("button")));
        browser.wait_for(&format!("{counts} > {before}"));
        let counted = clicked.elapsed();
        browser.wait_for(&format!("{}.textContent.startsWith('Over')", self.part(".outcome")));
        browser.wait_for(&format!("/they agree/.test({verdict})"));
        let outcome = browser.evaluate(&format!("{}.textContent", self.part(".outcome")));
        let text = browser.evaluate(&verdict);
        (format!("{} {}", text.as_str().unwrap(), outcome.as_str().unwrap()), counted)
    }
}

/// Opens the page *Break it* of a run, where faults last as long as is said: the titles of all faults.
fn open_break_it(browser: &mut Browser, run: &Demo, seconds: f64) -> Vec<String> {
    browser.go(&run.address());
    browser.wait_for("!document.querySelector('#break').hidden");
    browser.evaluate("location.hash = '#/break'");
    browser.wait_for(&format!(
        "((input) => input && ((input.value = '{seconds}'), true))(document.querySelector('#main input'))"
    ));
    // The front end says what it can do when it begins.
    let titles = "[...document.querySelectorAll('.fault button')].map((it) => it.textContent)";
    browser.wait_for(&format!("{titles}.join('').includes('noisy')"));
    let titles = browser.evaluate(&format!("{titles}.join('|')"));
    titles.as_str().unwrap().split('|').map(str::to_owned).collect()
}

/// What the report of a run says at the place of its ledger, or for the figure, that a text of the page begins with.
fn told_at(place: &str, report: &Value) -> u64 {
    let (stage, reason) = place.split_once(": ").unwrap();
    let (stage, reason) = (stage.replace(' ', "_"), reason.replace(' ', "_"));
    match (&*stage, &*reason) {
        ("streams", figure) => {
            let streams = report["streams"].as_array().unwrap().iter();
            streams.map(|stream| stream[figure].as_u64().unwrap()).sum()
        }
        ("recorder" | "trigger", figure) => report[&*stage][figure].as_u64().unwrap(),
        ("channels", _) => report["channels"]["loudest"][0]["tps"].as_u64().unwrap(),
        _ => {
            let mut stages = report["ledger"].as_array().unwrap().iter();
            let found = stages.find(|it| it["stage"] == *stage).expect("a stage");
            let mut dropped = found["dropped"].as_array().unwrap().iter();
            let drop = dropped.find(|it| it["reason"] == *reason).expect("a reason");
            drop["count"].as_u64().unwrap()
        }
    }
}

#[test]
fn the_page_tells_of_each_fault_what_was_done() {
    let test = "the_page_tells_of_each_fault_what_was_done";
    let _alone = alone();
    let Some(mut browser) = Browser::open(test) else { return };
    for seed in rounds(2, 20).map(|round| round + 1) {
        // What a stream that is silent owes is known where two others went on; one fault is over before it is found.
        let seconds = if seed.is_multiple_of(2) { 0.5 } else { 2.0 };
        // Without particles nothing but what is put in makes a primitive.
        let run = Demo::with(&format!(
            "[[source]]\nstreams = {{ count = 4 }}\nemulated = true\n\
             [emulate]\nseed = {seed}\nstreams = {{ count = 4 }}\npace = {{ rate_scale = 0.1 }}\n\
             tracks = {{ rate_hz = 0.0 }}\ndeposits = {{ rate_hz = 0.0 }}\n\n[recorder]\n"
        ));
        let titles = open_break_it(&mut browser, &run, seconds);
        assert!(titles.len() >= 10, "{titles:?}");
        let mut shown: Vec<String> = Vec::new();
        for (place, title) in titles.iter().enumerate() {
            let (text, counted) = Card(place).break_it(&mut browser);
            eprintln!(
                "seed {seed}, {seconds} s: {title}: counted {counted:.2?} after the click; {text}"
            );
            shown.push(text);
        }
        let noise = shown.iter().find(|text| text.contains("hits in channel")).expect("noise");
        assert!(noise.contains("named as noisy: "), "{noise}");
        assert!(browser.evaluate(LINE).as_str().unwrap().contains("DEGRADED"));
        run.interrupt();
        let (_, report) = run.end();
        assert_eq!(report["degraded"], true);
        for text in &shown {
            let (place, _) = text.split_once(" –").unwrap();
            assert_eq!(number(text, ": "), number(text, "run counts"), "{text}");
            // Later faults of the same place have been added since.
            let last = shown.iter().rev().find(|text| text.starts_with(place)).unwrap();
            assert_eq!(told_at(place, &report), number(last, "run counts"), "{text}: {report}");
        }
    }
}

/// Where the accessibility checker axe-core is, if it is here.
const AXE: &str = "GANNET_AXE";

#[test]
fn an_accessibility_checker_finds_nothing_on_any_page() {
    let test = "an_accessibility_checker_finds_nothing_on_any_page";
    let Some(file) = std::env::var_os(AXE) else {
        return skipped(test, format!("{AXE} does not say where axe.min.js is"));
    };
    let axe = fs::read_to_string(file).unwrap();
    let _alone = alone();
    let Some(mut browser) = Browser::open(test) else { return };
    let demo = Demo::start("60");
    browser.go(&demo.address());
    browser.wait_for("!document.querySelector('#break').hidden");
    browser.evaluate(&format!("{axe}; true"));
    for scheme in ["light", "dark"] {
        browser.shape((1280, 720), scheme);
        for page in PAGES.into_iter().chain(VIEWS.map(|(page, _)| page)) {
            browser.evaluate(&format!("location.hash = '#/{page}'"));
            browser.wait_for(SHOWN);
            thread::sleep(Duration::from_secs(1));
            let found = browser.evaluate(
                "axe.run({ resultTypes: ['violations'] }).then((it) => it.violations.map(({ id, nodes }) => \
                 `${id}: ${nodes[0].html}`).join('; '))",
            );
            assert_eq!(found, "", "{page}, {scheme}");
        }
    }
    demo.interrupt();
    demo.end();
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
            for (page, called) in PAGES.map(|page| (page, page)).into_iter().chain(VIEWS) {
                browser.evaluate(&format!("location.hash = '#/{page}'"));
                browser.wait_for(SHOWN);
                thread::sleep(Duration::from_secs(2));
                let file = directory.join(format!("{called}-{name}-{scheme}.webp"));
                fs::write(file, browser.picture()).unwrap();
            }
        }
    }
    demo.interrupt();
    demo.end();
}
