//! The state machine against a plain model of a station, for any order of commands and events.

use proptest::prelude::*;

use super::*;

/// What a station is, told otherwise: a run that may be there, and how the last one went.
#[derive(Clone, Debug, Default)]
struct Model {
    run: Option<ModelRun>,
    last_failed: bool,
    is_closing: bool,
}

#[derive(Clone, Debug, Default)]
struct ModelRun {
    takes_frames: bool,
    can_pause: bool,
    is_paused: bool,
    is_ending: bool,
}

impl Model {
    fn state(&self) -> State {
        match &self.run {
            None if self.last_failed => State::Failed,
            None => State::Idle,
            Some(run) if run.is_ending => State::Stopping,
            Some(run) if !run.takes_frames => State::Starting,
            Some(run) if run.is_paused => State::Paused,
            Some(_) => State::Running,
        }
    }

    /// Whether a command is carried out.
    fn command(&mut self, command: Command) -> bool {
        match (command, &mut self.run) {
            (Command::Start, run @ None) if !self.is_closing => *run = Some(ModelRun::default()),
            (Command::Stop, Some(run)) if !run.is_ending => run.is_ending = true,
            (Command::Pause, Some(run))
                if run.takes_frames && run.can_pause && !run.is_paused && !run.is_ending =>
            {
                run.is_paused = true;
            }
            (Command::Resume, Some(run)) if run.is_paused && !run.is_ending => {
                run.is_paused = false
            }
            _ => return false,
        }
        true
    }

    fn on(&mut self, event: Event) {
        let Some(run) = &mut self.run else { return };
        match event {
            Event::Started { can_pause } if !run.takes_frames && !run.is_ending => {
                (run.takes_frames, run.can_pause) = (true, can_pause);
            }
            Event::Started { .. } => {}
            Event::Over => run.is_ending = true,
            Event::Ended { failed } => (self.run, self.last_failed) = (None, failed),
        }
    }

    fn close(&mut self) {
        self.is_closing = true;
        self.run.iter_mut().for_each(|run| run.is_ending = true);
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Command(Command, Option<State>),
    Event(Event),
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    let command = prop::sample::select(&Command::ALL[..]);
    let believed = prop::option::of(prop::sample::select(&State::ALL[..]));
    let event = prop_oneof![
        any::<bool>().prop_map(|can_pause| Event::Started { can_pause }),
        Just(Event::Over),
        any::<bool>().prop_map(|failed| Event::Ended { failed }),
    ];
    prop_oneof![
        20 => (command, believed).prop_map(|(command, believed)| Step::Command(command, believed)),
        20 => event.prop_map(Step::Event),
        1 => Just(Step::Close),
    ]
}

proptest! {
    #[test]
    fn a_station_is_as_its_model_has_it(steps in prop::collection::vec(step(), 0..200)) {
        let (mut machine, mut model) = (Machine::default(), Model::default());
        for step in steps {
            let before = model.state();
            match step {
                Step::Event(event) => {
                    machine.on(event);
                    model.on(event);
                }
                Step::Close => {
                    machine.close();
                    model.close();
                }
                Step::Command(command, believed) => {
                    let is_possible = machine.possible().contains(&command);
                    let knows = believed.is_none_or(|believed| believed == before);
                    let expected = knows && model.command(command);
                    prop_assert!(!knows || is_possible == expected, "{command} is possible");
                    match machine.command(command, believed) {
                        Ok(state) => prop_assert!(expected && state == model.state()),
                        Err(refused) => {
                            prop_assert!(!expected, "{refused}");
                            prop_assert_eq!(refused.now(), before);
                        }
                    }
                }
            }
            prop_assert_eq!(machine.state(), model.state());
        }
        // From wherever it is, the end of the run leads to rest.
        machine.on(Event::Over);
        machine.on(Event::Ended { failed: false });
        prop_assert!(machine.state().is_at_rest());
    }
}

#[test]
fn what_is_refused_says_why_in_words() {
    let mut machine = Machine::default();
    let words = |machine: &mut Machine, command, believed| {
        machine.command(command, believed).unwrap_err().to_string()
    };
    let text = words(&mut machine, Command::Stop, None);
    assert_eq!(text, "the station is idle: there is no run; start one first");
    let text = words(&mut machine, Command::Start, Some(State::Running));
    assert_eq!(text, "the station is idle, and not running any more");
    machine.command(Command::Start, Some(State::Idle)).unwrap();
    machine.on(Event::Started { can_pause: false });
    assert!(words(&mut machine, Command::Pause, None).contains("cannot pause"));
    machine.close();
    assert_eq!(machine.state(), State::Stopping);
    machine.on(Event::Ended { failed: false });
    assert!(words(&mut machine, Command::Start, None).contains("about to end"));
}
