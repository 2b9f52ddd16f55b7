//! History, alarms, files and notes of a run, as programs ask for them.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::readout::pages::Demo;
use crate::readout::process::{alone, gannet};

/// How long anything may take on a machine that does much else, before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A run of frames that are emulated in its process, as programs with its token see it.
struct Served {
    run: Demo,
    cookie: String,
}

impl Served {
    /// Lines of the table `[recorder]`, and tables, may be added.
    fn start(recorder: &str, tables: &str) -> Self {
        Self::of(Demo::emulated(1, recorder, "pace = { rate_scale = 0.1 }", tables))
    }

    fn of(run: Demo) -> Self {
        Self { cookie: run.cookie(), run }
    }

    fn get(&self, path: &str) -> (u16, Value) {
        self.run.json(path, &self.cookie)
    }

    fn post(&self, path: &str, key: &str, body: &str) -> (u16, Value) {
        self.run.post(path, &self.cookie, key, body)
    }

    /// The whole answer to a request.
    fn bytes(&self, path: &str) -> Vec<u8> {
        let mut answer = Vec::new();
        let mut client = self.run.ask(&format!("GET /api/v1/{path}"), &self.cookie);
        client.read_to_end(&mut answer).unwrap();
        answer
    }

    /// What is answered once it is as it should be.
    fn wait_for(&self, path: &str, is_right: impl Fn(&Value) -> bool) -> Value {
        self.run.wait_for(path, &self.cookie, is_right)
    }

    fn end(&mut self) {
        self.run.interrupt();
        self.run.finish();
    }
}

fn wait_for_text(file: &PathBuf, text: &str) {
    let begin = Instant::now();
    while fs::read_to_string(file).unwrap_or_default() != text {
        assert!(begin.elapsed() < PATIENCE, "{:?}", fs::read_to_string(file));
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_rule_raises_an_alarm_that_is_told_and_acknowledged() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let told = directory.path().join("told");
    let rules = format!(
        "[[alarm]]\nname = \"frames\"\nfigure = \"frames\"\nabove = 0.0\nhold = \"0 s\"\n\
         meaning = \"<b>Data</b> come.\"\nadvice = \"Be glad.\"\n\
         command = [\"sh\", \"-c\", \"echo $GANNET_ALARM $GANNET_ALARM_STATE >> $0\", {told:?}]\n\
         [[alarm]]\nname = \"quiet\"\nfigure = \"stream_frames\"\nbelow = 1e9\nhold = \"0 s\"\n"
    );
    let mut run = Served::start("", &rules);
    let of = |listed: &Value, rule: &str| -> Vec<Value> {
        let active = listed["active"].as_array().into_iter().flatten();
        active.filter(|alarm| alarm["rule"] == rule).cloned().collect()
    };
    let listed = run.wait_for("alarms", |it| of(it, "frames").len() + of(it, "quiet").len() == 3);
    let alarm = &of(&listed, "frames")[0];
    assert_eq!(
        (&alarm["meaning"], &alarm["advice"]),
        (&json!("<b>Data</b> come."), &json!("Be glad."))
    );
    assert!(alarm["since"].as_f64() > Some(1.7e9) && alarm["acknowledged"].is_null(), "{alarm}");
    let rules = listed["rules"].as_array().unwrap();
    let calling: Vec<_> = rules.iter().filter(|rule| rule["calls"] == true).collect();
    assert!(rules.len() >= 6 && calling.len() == 1, "{listed}");
    // Those that a run shows anyway have them too.
    run.wait_for("snapshot", |it| {
        it["alarms"].as_array().unwrap().iter().filter(|alarm| alarm["kind"] == "rule").count() == 3
    });
    wait_for_text(&told, "frames raised\n");

    let acknowledge = |id: &Value, key: &str, body: &str| {
        run.post(&format!("alarms/{id}/acknowledge"), key, body)
    };
    let id = &alarm["id"];
    let first = acknowledge(id, "a", r#"{"by":"<i>Ada</i>"}"#);
    let by = first.1["acknowledged"]["by"].as_str().unwrap();
    assert!(first.0 == 200 && by.starts_with("<i>Ada</i>"), "{first:?}");
    assert_eq!(acknowledge(id, "a", r#"{"by":"<i>Ada</i>"}"#), first, "it is done once");
    let (status, again) = acknowledge(id, "b", "{}");
    assert_eq!((status, &again["code"]), (409, &json!("acknowledged")));
    assert_eq!(again["now"]["acknowledged"], first.1["acknowledged"]);
    let other = &of(&listed, "quiet")[0]["id"];
    let (status, used) = acknowledge(other, "a", r#"{"by":"<i>Ada</i>"}"#);
    assert_eq!(
        (status, &used["code"]),
        (422, &json!("key-used")),
        "the key is that of another alarm"
    );
    let (status, unknown) = acknowledge(&json!(999), "c", "{}");
    assert_eq!((status, &unknown["code"]), (404, &json!("unknown-alarm")));
    let long = format!("{{\"by\":\"{}\"}}", "x".repeat(65));
    assert_eq!(acknowledge(other, "d", &long).0, 400);
    assert_eq!(acknowledge(&json!("first"), "e", "{}").0, 400);
    run.end();
}

#[test]
fn figures_are_kept_by_the_second() {
    let _alone = alone();
    let mut run = Served::start("", "");
    let known = |course: &Value| -> Vec<f64> {
        let mean = course["mean"].as_array().into_iter().flatten();
        mean.filter_map(Value::as_f64).collect()
    };
    let course = run.wait_for("history?figure=frames", |it| known(it).len() >= 3);
    assert_eq!(
        (&course["figure"], &course["unit"], &course["step"]),
        (&json!("frames"), &json!("/s"), &json!(1))
    );
    assert!(known(&course).iter().all(|rate| *rate > 0.0), "{course}");
    let (_, listed) = run.get("figures");
    let figures = listed["figures"].as_array().unwrap();
    let names: Vec<_> = figures.iter().map(|it| it["name"].as_str().unwrap()).collect();
    for name in ["lost", "disk_free", "stage_dropped:source", "source_cpu:source 1"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert_eq!(names.iter().filter(|name| name.starts_with("stream_frames:")).count(), 2);
    assert!(listed["bytes"].as_u64() > Some(0) && listed["left_out"] == 0, "{listed}");
    let newest = listed["newest"].as_u64().unwrap();
    let (_, now) = run.get(&format!("history?figure=frames&from={newest}&to={}", newest + 1));
    assert_eq!(now["mean"].as_array().unwrap().len(), 1, "{now}");
    let (status, unknown) = run.get("history?figure=frame");
    assert_eq!((status, &unknown["code"]), (404, &json!("unknown-figure")));
    assert!(unknown["detail"].as_str().unwrap().contains("did you mean frames?"), "{unknown}");
    assert_eq!(run.get("history?figures=frames").0, 400);
    run.end();
}

#[test]
fn files_are_read_back_and_copied_by_their_number_alone() {
    let _alone = alone();
    // A log is full soon.
    let mut run = Served::start("file_size_max = \"1 MiB\"", "");
    let listed = run.wait_for("files", |it| it[0]["bytes"].as_u64() > Some(0));
    let file = &listed[0];
    let path = Path::new(file["path"].as_str().unwrap());
    assert_eq!(
        (&file["id"], &file["check"], path.parent()),
        (&json!(1), &Value::Null, Some(run.run.directory()))
    );
    assert_eq!(file["name"].as_str(), path.file_name().unwrap().to_str());
    let copy = run.bytes("files/1/content");
    let end = copy.windows(4).position(|it| it == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&copy[..end]);
    assert!(head.contains("content-disposition: attachment; filename*=UTF-8''"), "{head}");
    assert!(copy[end + 4..] == fs::read(path).unwrap(), "the copy is another");
    for (path, status, code) in [
        ("files/0/content", 404, "unknown-file"),
        ("files/9999/content", 404, "unknown-file"),
        ("files/-1/content", 400, "unreadable-query"),
        ("files/..%2f..%2fetc%2fpasswd/content", 400, "unreadable-query"),
    ] {
        let (found, problem) = run.get(path);
        assert_eq!((found, &problem["code"]), (status, &json!(code)), "{path}");
    }
    let verify = |id: u32, key: &str| run.post(&format!("files/{id}/verify"), key, "{}");
    let (status, check) = verify(1, "a");
    assert_eq!((status, &check["state"]), (202, &json!("running")), "{check}");
    assert_eq!(verify(1, "a").0, 202, "it is done once");
    assert_eq!(verify(9999, "b").0, 404);
    let over = run.wait_for("files", |it| it[0]["check"]["state"] == "over");
    assert_eq!(over[0]["check"]["sound"], true, "{over}");
    // One byte of it is another now.
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
    assert_eq!(verify(1, "c").0, 202);
    let over = run.wait_for("files", |it| it[0]["check"]["sound"] == false);
    assert!(!over[0]["check"]["told"].as_str().unwrap().is_empty(), "{over}");
    fs::remove_file(path).unwrap();
    let (status, gone) = run.get("files/1/content");
    assert_eq!((status, &gone["code"]), (410, &json!("not-there")));
    run.wait_for("files", |it| it[0]["bytes"].is_null());
    run.end();
}

#[test]
fn notes_are_kept_beside_the_files() {
    let _alone = alone();
    let mut run = Served::start("", "");
    assert_eq!(run.get("notes"), (200, json!([])));
    let text = "<script>alert(1)</script>\nline 2";
    let body = json!({ "run": 1, "by": "Ada", "text": text }).to_string();
    let (status, note) = run.post("notes", "a", &body);
    assert_eq!((status, &note["text"], &note["run"]), (201, &json!(text), &json!(1)), "{note}");
    assert_eq!(run.post("notes", "a", &body), (201, note.clone()), "it is written once");
    assert_eq!(run.post("notes", "b", "{\"text\":\" \"}").0, 400);
    assert_eq!(run.post("notes", "c", "{\"text\":\"a\",\"who\":1}").0, 400);
    assert_eq!(run.post("notes", "d", "{\"text\":\"a\\u202eb\"}").1["code"], "note-character");
    let (status, unknown) = run.post("notes", "e", "{\"text\":\"a\",\"run\":99}");
    assert_eq!((status, &unknown["code"]), (404, &json!("unknown-run")), "{unknown}");
    assert_eq!(run.get("notes"), (200, json!([note])));
    run.end();
    let kept = fs::read_to_string(run.run.directory().join("gannet_notes.jsonl")).unwrap();
    assert_eq!(kept.lines().count(), 1);
    // Whoever comes later finds them.
    let mut run = Served::of(run.run.again());
    assert_eq!(run.get("notes").1[0]["text"], json!(text));
    run.end();
}

#[test]
fn a_rule_that_does_not_fit_is_told_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("a.toml");
    let source = "[[source]]\nudp = { listen = [\"127.0.0.1:0\"] }\n";
    let right = "[[alarm]]\nname = \"a\"\nfigure = \"lost\"\nabove = 5.0\n";
    for (rule, place, says) in [
        ("figure = \"frame\"\nname = \"a\"\nabove = 1.0\n", "4:10", "did you mean `frames`?"),
        ("figure = \"lost\"\nname = \"a\"\n", "4:10", "add `above` or `below`"),
        (
            "figure = \"lost\"\nname = \"a\"\nabove = 1.0\nwebhook = \"ftp://x\"\n",
            "7:11",
            "http://",
        ),
        ("figure = \"lost\"\nname = \"a\"\nlimit = 1.0\n", "6:1", "unknown"),
        (
            "figure = \"lost\"\nname = \"a\"\nabove = 1.0\n[[alarm]]\nname = \"a\"\n",
            "8:8",
            "its own name",
        ),
    ] {
        fs::write(&config, format!("{source}[[alarm]]\n{rule}")).unwrap();
        let checked = Command::new(gannet()).arg("check").arg(&config).output().unwrap();
        let error = String::from_utf8(checked.stderr).unwrap();
        assert_eq!(checked.status.code(), Some(4), "{error}");
        assert!(error.contains(&format!("a.toml:{place}")) && error.contains(says), "{error}");
    }
    fs::write(&config, format!("{source}{right}")).unwrap();
    let checked = Command::new(gannet()).arg("check").arg(&config).output().unwrap();
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stderr));
}
