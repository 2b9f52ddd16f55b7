//! What documents tell people to type, as scripts that watch over it.
//!
//! Every command has to succeed. One with `# exit code N` behind it has to end with N. The ports 7431
//! (UDP) and 9180 (metrics) stand for any free ones.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use gannet_measure::testing::free_address;

/// Ports that documents name.
const UDP_PORT: &str = "7431";
const METRICS_PORT: &str = "9180";
/// Seconds after which nothing is expected any more.
const PATIENCE: &str = "240";

/// What each script begins with.
///
/// `fetch` reads the metrics without further programs, and stands in for `curl` where it is not
/// installed. `$!` must stay that of the readout, so nothing here goes to the background.
pub const PRELUDE: &str = r#"
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
pub struct Block<'a> {
    pub language: &'a str,
    /// Line of its first line of code, counted from 1.
    pub line: usize,
    pub code: Vec<&'a str>,
}

/// The blocks of `document` that name a language.
pub fn blocks(document: &str) -> Vec<Block<'_>> {
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
pub fn add_commands(script: &mut String, block: &Block<'_>) {
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

/// Runs `script` in an empty directory below `directory`, with free ports in place of those that it
/// names, and the programs of the directory `programs`.
pub fn run(script: &str, directory: &Path, programs: &Path) -> Output {
    let [udp, metrics] = [(); 2].map(|()| free_address().port().to_string());
    let script = script.replace(UDP_PORT, &udp).replace(METRICS_PORT, &metrics);
    let file = directory.join("tutorial.sh");
    std::fs::write(&file, script).unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(programs.to_owned()).chain(std::env::split_paths(&path));
    let work = directory.join("work");
    std::fs::create_dir_all(&work).unwrap();
    Command::new("timeout")
        .args(["--kill-after=10", PATIENCE, "bash"])
        .arg(&file)
        .current_dir(work)
        .env("PATH", std::env::join_paths(paths).unwrap())
        .env("METRICS_PORT", metrics)
        .output()
        .unwrap()
}
