//! The tutorial works: what `docs/tutorial.md` tells people to type is run, in its order.
//!
//! Conventions of the tutorial:
//!
//! * Blocks marked `sh` are run by one `bash` in an empty directory; blocks marked `python` are run
//!   between them by the Python of `GANNET_JUDGE_PYTHON`, or skipped loudly. Other blocks are for
//!   reading only.
//! * Every command has to succeed. One with `# exit code N` behind it has to end with N.
//! * The ports 7431 (UDP) and 9180 (metrics) stand for any free ones.

use std::fmt::Write as _;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gannet_measure::testing::skipped;

const TUTORIAL: &str = include_str!("../../../../docs/tutorial.md");
/// Ports that the tutorial names.
const UDP_PORT: &str = "7431";
const METRICS_PORT: &str = "9180";
/// Seconds after which nothing is expected any more.
const PATIENCE: &str = "240";

/// What each script begins with.
///
/// `fetch` reads the metrics without further programs, and stands in for `curl` where it is not
/// installed. `$!` must stay that of the readout, so nothing here goes to the background.
const PRELUDE: &str = r#"
set -eE
trap 'echo "tutorial.md:$line: exit code $?" >&2' ERR
trap 'kill -KILL $(jobs -p) 2> /dev/null || true' EXIT
fetch() (
    exec 9<> "/dev/tcp/127.0.0.1/$METRICS_PORT"
    printf 'GET /metrics HTTP/1.0\r\n\r\n' >&9
    cat <&9
)
command -v curl > /dev/null || curl() { fetch; }
expect() {
    if [ "$1" != "$2" ]; then
        echo "tutorial.md:$line: exit code $2 in place of $1" >&2
        exit 1
    fi
}
"#;

/// A block of code of a document.
struct Block<'a> {
    language: &'a str,
    /// Line of its first line of code, counted from 1.
    line: usize,
    code: Vec<&'a str>,
}

/// The blocks of `document` that name a language.
fn blocks(document: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut is_open = false;
    for (number, line) in (1..).zip(document.lines()) {
        match line.strip_prefix("```") {
            Some(_) if is_open => is_open = false,
            Some(language) => {
                is_open = true;
                blocks.push(Block { language, line: number + 1, code: Vec::new() });
            }
            None if is_open => blocks.last_mut().unwrap().code.push(line),
            None => (),
        }
    }
    blocks
}

/// Adds the commands of a block to a script, with what watches over them.
fn add_commands(script: &mut String, block: &Block<'_>) {
    let mut lines = (block.line..).zip(&block.code);
    while let Some((number, line)) = lines.next() {
        writeln!(script, "line={number}").unwrap();
        let Some((_, code)) = line.split_once("# exit code ") else {
            writeln!(script, "{line}").unwrap();
            if let Some((_, end)) = line.split_once("<<'") {
                let end = end.trim_end_matches('\'');
                let rest = lines.by_ref().map(|(_, line)| *line);
                // The line that ends it is taken, and given to the script below.
                rest.take_while(|line| *line != end)
                    .for_each(|line| writeln!(script, "{line}").unwrap());
                writeln!(script, "{end}").unwrap();
            }
            continue;
        };
        // A list is exempt from `set -e` and the trap, and keeps the code.
        writeln!(script, "code=0\n{} || code=$?", line.split_once(" #").unwrap().0).unwrap();
        writeln!(script, "expect {code} $code").unwrap();
    }
}

/// Adds a block of Python to a script.
fn add_python(script: &mut String, block: &Block<'_>) {
    let code = block.code.join("\n");
    writeln!(script, "line={}\n\"$GANNET_JUDGE_PYTHON\" - <<'END_OF_PYTHON'", block.line).unwrap();
    writeln!(script, "{code}\nEND_OF_PYTHON").unwrap();
}

/// The whole tutorial as a script.
fn script() -> String {
    let mut script = PRELUDE.to_owned();
    for block in blocks(TUTORIAL) {
        match block.language {
            "sh" => add_commands(&mut script, &block),
            "python" if std::env::var_os("GANNET_JUDGE_PYTHON").is_some() => {
                add_python(&mut script, &block);
            }
            "python" => {
                skipped("the Python of the tutorial", "set GANNET_JUDGE_PYTHON to one with h5py")
            }
            _ => (),
        }
    }
    script
}

/// The directory of the binary under test: that which the check names, or the one built with the tests.
fn binaries() -> PathBuf {
    let binary = std::env::var_os("GANNET_BIN").unwrap_or(env!("CARGO_BIN_EXE_gannet").into());
    Path::new(&binary).parent().unwrap().to_path_buf()
}

/// Runs `script` in `directory`, with free ports in place of those that it names.
fn run(script: &str, directory: &Path) -> Output {
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let metrics = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let metrics = metrics.to_string();
    let script = script.replace(UDP_PORT, &udp).replace(METRICS_PORT, &metrics);
    let file = directory.join("tutorial.sh");
    std::fs::write(&file, script).unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(binaries()).chain(std::env::split_paths(&path));
    let work = directory.join("work");
    std::fs::create_dir(&work).unwrap();
    Command::new("timeout")
        .args(["--kill-after=10", PATIENCE, "bash"])
        .arg(&file)
        .current_dir(work)
        .env("PATH", std::env::join_paths(paths).unwrap())
        .env("METRICS_PORT", metrics)
        .output()
        .unwrap()
}

#[test]
fn every_command_of_the_tutorial_does_what_it_says() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(&script(), directory.path());
    let (out, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{errors}", output.status);
}

#[test]
fn a_command_that_ends_otherwise_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let cases = [
        ("true\nfalse", "tutorial.md:2: exit code 1"),
        ("false            # exit code 3", "tutorial.md:1: exit code 1 in place of 3"),
        ("true   # exit code 3", "tutorial.md:1: exit code 0 in place of 3"),
        ("cat > a <<'END'\nfalse\nEND\ntest $(cat a) = true", "tutorial.md:4: exit code 1"),
    ];
    for (place, (code, message)) in cases.into_iter().enumerate() {
        let mut script = PRELUDE.to_owned();
        let block = Block { language: "sh", line: 1, code: code.lines().collect() };
        add_commands(&mut script, &block);
        let directory = directory.path().join(place.to_string());
        std::fs::create_dir(&directory).unwrap();
        let output = run(&script, &directory);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(message), "{code}: {errors}");
    }
    let mut script = PRELUDE.to_owned();
    let code = vec!["(exit 3)   # exit code 3", "cat <<'END'", "false", "END"];
    add_commands(&mut script, &Block { language: "sh", line: 1, code });
    let directory = directory.path().join("good");
    std::fs::create_dir(&directory).unwrap();
    assert!(run(&script, &directory).status.success());
}
