//! Runs stopped and started in a browser.

use super::chromium::Browser;
use crate::readout::pages::Demo;
use crate::readout::process::alone;

/// Moves the focus to the button of this class.
fn reach(browser: &mut Browser, class: &str) {
    let is_there = format!("document.activeElement.matches('button.{class}')");
    let tabs = (0..100).find(|_| {
        browser.press("Tab");
        browser.evaluate(&is_there) == true
    });
    assert!(tabs.is_some(), "no way to the button {class}");
}

#[test]
fn a_run_is_stopped_by_the_keyboard_and_the_page_tells_how_to_open_its_file() {
    let test = "a_run_is_stopped_by_the_keyboard_and_the_page_tells_how_to_open_its_file";
    let _alone = alone();
    let Some(mut browser) = Browser::open(test) else { return };
    let mut demo = Demo::start("60");
    browser.go(&demo.address());
    let takes = |name: &str| {
        format!(
            "document.querySelector('button.{name}')?.getAttribute('aria-disabled') === 'false'"
        )
    };
    let state = "document.querySelector('#state').textContent";
    browser.wait_for(&takes("pause"));
    reach(&mut browser, "pause");
    browser.press("Enter");
    browser.wait_for(&format!("{state} === 'PAUSED'"));
    browser.wait_for("!document.querySelector('button.resume').hidden");
    browser.evaluate("document.querySelector('button.resume').focus()");
    browser.press("Enter");
    browser.wait_for(&format!("{state} === 'RUNNING'"));
    browser.wait_for("Number(/records.*?([0-9]+)/.exec(document.body.textContent)?.[1]) > 0");
    reach(&mut browser, "stop");
    browser.press("Enter");
    browser.wait_for("document.activeElement.textContent === 'Really stop?'");
    browser.press("Enter");
    let outcome = "document.querySelector('.outcome-of-run')";
    browser.wait_for(&format!("{outcome}.checkVisibility()"));
    let text = browser.evaluate(&format!("{outcome}.textContent"));
    let text = text.as_str().unwrap();
    assert!(text.contains("Run 1 is drained: 3 of 3 files verified, 0 lost of "), "{text}");
    let python = browser.evaluate(&format!("{outcome}.querySelector('pre').textContent"));
    let python = python.as_str().unwrap();
    assert!(python.lines().count() == 3 && python.starts_with("import h5py\n"), "{python}");
    reach(&mut browser, "start");
    browser.press(" ");
    browser.wait_for("/^RUNNING.*run 2 /.test(document.querySelector('#summary').textContent)");
    assert_eq!(browser.errors(), [&serde_json::Value::Null; 0]);
    demo.interrupt();
    let (code, reports) = demo.ends();
    assert_eq!((code, reports.len()), (Some(130), 2));
}
