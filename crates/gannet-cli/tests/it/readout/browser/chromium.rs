//! A Chromium without a window, told what to do by its DevTools protocol.
//!
//! It is spoken over two pipes, as JSON with a zero byte behind each message. So a machine needs Chromium and nothing
//! else: no driver, no port, and no library that knows all of the protocol.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::readout::process::has_program;

/// How long anything may take on a machine that does much else, before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Names under which it is installed.
const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// A browser with one page.
pub struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    /// What came that was no answer, oldest first.
    events: VecDeque<Value>,
    session: Option<String>,
    calls: u64,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// A browser with an empty page, unless there is none on this machine: then this says that `test` cannot run.
    pub fn open(test: &str) -> Option<Self> {
        let Some(program) = PROGRAMS.into_iter().find(|program| has_program(program)) else {
            gannet_measure::testing::skipped(test, "there is no Chromium");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        // The protocol is spoken on descriptors 3 and 4. As root Chromium wants no sandbox.
        let script = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null";
        let mut command = Command::new("sh");
        command.args(["-c", script, program, "--headless", "--no-sandbox"]);
        command.args(["--remote-debugging-pipe", "--no-first-run", "--disable-gpu"]);
        command.args(["--disable-dev-shm-usage", "--disable-background-networking"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let commands = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (tell, messages) = channel();
        thread::spawn(move || {
            for message in output.split(0) {
                let Ok(message) = message else { return };
                let message = serde_json::from_slice(&message).unwrap();
                if tell.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self {
            child,
            commands,
            messages,
            events: VecDeque::new(),
            session: None,
            calls: 0,
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = Some(attached["sessionId"].as_str().unwrap().into());
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// The result of a method of the protocol.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let mut call = json!({ "id": self.calls, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            call["sessionId"] = session.as_str().into();
        }
        self.commands.write_all(call.to_string().as_bytes()).unwrap();
        self.commands.write_all(&[0]).unwrap();
        self.commands.flush().unwrap();
        let begin = Instant::now();
        loop {
            match self.messages.recv_timeout(Duration::from_secs(1)) {
                Ok(message) if message["id"] == self.calls => {
                    assert!(message["error"].is_null(), "{call}: {message}");
                    return message["result"].clone();
                }
                Ok(event) => self.events.push_back(event),
                Err(RecvTimeoutError::Timeout) if begin.elapsed() < PATIENCE => {}
                Err(error) => panic!("{call}: {error}"),
            }
        }
    }

    /// What a script in the page comes to; of a promise, what it becomes.
    pub fn evaluate(&mut self, script: &str) -> Value {
        let parameters = json!({
            "expression": script, "returnByValue": true, "awaitPromise": true,
        });
        let mut result = self.call("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{script}: {result}");
        result["result"]["value"].take()
    }

    /// What a script in the page comes to, once that is true, a number other than 0 or a text.
    pub fn wait_for(&mut self, script: &str) -> Value {
        let begin = Instant::now();
        loop {
            let value = self.evaluate(script);
            let is_there = match &value {
                Value::Null | Value::Bool(false) => false,
                Value::Number(number) => number.as_f64() != Some(0.0),
                Value::String(text) => !text.is_empty(),
                _ => true,
            };
            if is_there {
                return value;
            }
            if begin.elapsed() > PATIENCE {
                let page = self.evaluate("document.body.innerText");
                panic!("{script}: {value}; the page: {page}");
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Goes to an address.
    pub fn go(&mut self, address: &str) {
        self.call("Page.navigate", json!({ "url": address }));
        self.wait_for("location.protocol !== 'about:' && document.readyState === 'complete'");
    }

    /// Presses a key and lets it go.
    pub fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, None),
            "Enter" => (13, Some("\r")),
            " " => (32, Some(" ")),
            other => panic!("no code for {other}"),
        };
        let mut down = json!({
            "type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code,
        });
        if let Some(text) = text {
            down["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", down);
        let up = json!({ "type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code });
        self.call("Input.dispatchKeyEvent", up);
    }

    /// Makes the window so large, and asks for light or dark pages.
    pub fn shape(&mut self, (width, height): (u32, u32), scheme: &str) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
        });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// The page as a picture in the format WebP.
    pub fn picture(&mut self) -> Vec<u8> {
        let parameters = json!({ "format": "webp", "quality": 80 });
        let picture = self.call("Page.captureScreenshot", parameters);
        STANDARD.decode(picture["data"].as_str().unwrap()).unwrap()
    }

    /// Addresses that the pages asked for so far.
    pub fn requests(&self) -> Vec<&str> {
        let sent = self.of_kind("Network.requestWillBeSent");
        sent.filter_map(|event| event["params"]["request"]["url"].as_str()).collect()
    }

    /// What went wrong in the pages so far: exceptions, and errors that the browser logs.
    pub fn errors(&self) -> Vec<&Value> {
        let logged = self.of_kind("Log.entryAdded");
        let logged = logged.filter(|event| event["params"]["entry"]["level"] == "error");
        self.of_kind("Runtime.exceptionThrown").chain(logged).collect()
    }

    fn of_kind(&self, method: &str) -> impl Iterator<Item = &Value> {
        self.events.iter().filter(move |event| event["method"] == method)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its other processes go when it does.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}
