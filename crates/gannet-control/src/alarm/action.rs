//! What is done when an alarm is raised and when it clears: a program is called, or an address is told.
//!
//! One at a time, on a thread of its own: an alarm never waits for what it calls, and what it calls has little time.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::board::Entry;

/// Time that a program or an address has.
pub const TIME: Duration = Duration::from_secs(10);

/// Calls that wait for those before them; further ones are not made.
pub const WAITING_MAX: usize = 64;

/// Time between two looks at whether a program has ended.
const LOOK: Duration = Duration::from_millis(20);

/// What is to be done about an alarm.
#[derive(Clone, Debug)]
pub struct Call {
    /// The alarm as it is now.
    pub entry: Entry,
    /// Program with its arguments; none where it is empty.
    pub command: Vec<String>,
    /// Address that is told.
    pub webhook: Option<String>,
}

impl Call {
    fn state(&self) -> &'static str {
        if self.entry.until.is_some() { "cleared" } else { "raised" }
    }

    fn make(&self) {
        let Entry { rule, .. } = &self.entry;
        if !self.command.is_empty()
            && let Err(why) = self.run()
        {
            tracing::warn!("alarm {rule:?}: {} {why}", self.command[0]);
        }
        if let Some(address) = &self.webhook
            && let Err(why) = self.send(address)
        {
            tracing::warn!("alarm {rule:?}: {address} was not told: {why}");
        }
    }

    /// Calls the program and waits for its end, which it is brought to if it takes too long.
    fn run(&self) -> Result<(), String> {
        let (program, arguments) = self.command.split_first().ok_or("is no program")?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.env("GANNET_ALARM", &self.entry.rule).env("GANNET_ALARM_STATE", self.state());
        command.env("GANNET_ALARM_TEXT", &self.entry.text);
        // A group of its own, so that what it has started ends with it.
        let mut child = command
            .process_group(0)
            .spawn()
            .map_err(|error| format!("cannot be called: {error}"))?;
        let begin = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("failed: {status}")),
                Ok(None) if begin.elapsed() < TIME => thread::sleep(LOOK),
                Ok(None) => {
                    end(&mut child);
                    return Err(format!("was ended: it took more than {TIME:?}"));
                }
                Err(error) => return Err(format!("is not known to have ended: {error}")),
            }
        }
    }

    /// Tells the address, and reads no more of its answer than whether it is good.
    fn send(&self, address: &str) -> Result<(), ureq::Error> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(TIME))
            .max_redirects(0)
            .build()
            .into();
        let mut body = serde_json::to_value(&self.entry).unwrap_or_default();
        body["state"] = self.state().into();
        let request = agent.post(address).header("Content-Type", "application/json");
        request.send(body.to_string()).map(drop)
    }
}

fn end(child: &mut Child) {
    if let Some(group) = Pid::from_raw(child.id() as i32) {
        // It may have ended by itself just now.
        let _ended = kill_process_group(group, Signal::KILL);
    }
    let _ended = child.wait();
}

/// Makes calls, one after the other.
pub(crate) struct Caller {
    calls: Option<SyncSender<Call>>,
}

impl Caller {
    /// A caller that has a thread only if there will be calls.
    pub fn new(has_calls: bool) -> std::io::Result<Self> {
        if !has_calls {
            return Ok(Self { calls: None });
        }
        let (calls, waiting) = sync_channel::<Call>(WAITING_MAX);
        // It is left alone at the end: a last call has its time, and nobody waits for it.
        thread::Builder::new()
            .name("gannet-alarms".into())
            .spawn(move || waiting.iter().for_each(|call| call.make()))?;
        Ok(Self { calls: Some(calls) })
    }

    /// Has a call made, unless too many wait.
    pub fn call(&self, call: Call) {
        if let Some(calls) = &self.calls
            && let Err(TrySendError::Full(call)) = calls.try_send(call)
        {
            let rule = call.entry.rule;
            tracing::warn!("alarm {rule:?}: nobody was told, as {WAITING_MAX} calls wait");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::alarm::board::{Board, Condition};
    use crate::alarm::{Alarm, AlarmKind};

    fn call(command: &[&str], webhook: Option<String>) -> Call {
        let alarm = Alarm::new(AlarmKind::Rule, "hall", "is \"hot\"; $(reboot)");
        let (raised, _) = Board::default().update(1.0, &[Condition::of(&alarm)]);
        let command = command.iter().map(|text| (*text).to_owned()).collect();
        Call { entry: raised[0].clone(), command, webhook }
    }

    #[test]
    fn a_program_is_told_what_it_is_about_and_no_shell_reads_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("told");
        let script =
            "printf '%s|%s|%s' \"$GANNET_ALARM_STATE\" \"$GANNET_ALARM_TEXT\" \"$1\" > \"$0\"";
        let argument = "a b; $(reboot)";
        call(&["sh", "-c", script, file.to_str().unwrap(), argument], None).run().unwrap();
        let told = fs::read_to_string(file).unwrap();
        assert_eq!(told, "raised|hall is \"hot\"; $(reboot)|a b; $(reboot)");
    }

    #[test]
    fn a_program_that_fails_or_is_not_there_is_told() {
        assert!(call(&["false"], None).run().unwrap_err().starts_with("failed"));
        assert!(call(&["/no/such program"], None).run().unwrap_err().starts_with("cannot"));
    }

    #[test]
    fn what_a_program_started_ends_with_it() {
        let mut child =
            Command::new("sh").args(["-c", "sleep 1000 & wait"]).process_group(0).spawn().unwrap();
        end(&mut child);
        let group = Pid::from_raw(child.id() as i32).unwrap();
        let begin = Instant::now();
        // What nobody waits for is gone a moment later.
        while kill_process_group(group, Signal::CONT).is_ok() {
            assert!(begin.elapsed() < Duration::from_secs(60));
            thread::sleep(LOOK);
        }
    }

    #[test]
    fn an_address_is_told_as_json() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/alarms", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(client.try_clone().unwrap());
            let mut head = String::new();
            while reader.read_line(&mut head).unwrap() > 2 {}
            let length = head.to_ascii_lowercase();
            let length = length.lines().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.unwrap().parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            client.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
            (head, serde_json::from_slice::<serde_json::Value>(&body).unwrap())
        });
        call(&[], None).send(&address).unwrap();
        let (head, body) = server.join().unwrap();
        assert!(head.starts_with("POST /alarms HTTP/1.1\r\n"), "{head}");
        assert_eq!((&body["state"], &body["id"]), (&"raised".into(), &1.into()));
        assert_eq!(body["text"], "hall is \"hot\"; $(reboot)");
    }
}
