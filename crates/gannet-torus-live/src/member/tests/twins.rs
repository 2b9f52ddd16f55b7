//! Hosts of one number, or of one name.

use super::*;

#[test]
fn who_has_the_number_of_a_host_that_is_there_is_turned_away() {
    for (lattice, ports) in [("3x3", 4), ("4", 2), ("3x2", 4)] {
        let mut net = Net::of(lattice, 5);
        let hosts = net.members.len();
        net.run_until(3 * SETTLE, is_whole);
        let master = net.members[0].as_ref().unwrap().master();
        let [there, place]: [usize; 2] = {
            let is_other = |host: &usize| setup(*host, 1, 1).host != master;
            (0..hosts).filter(is_other).take(2).collect::<Vec<_>>().try_into().unwrap()
        };
        for (life, starts_later) in [(net.now + 7, true), (1, false)] {
            net.members[place] = None;
            net.run(3 * WATCHDOG);
            net.members[place] = Some(Member::new(setup(there, ports, life)));
            net.members[place].as_mut().unwrap().advance(net.now);
            net.run(8 * WATCHDOG);
            let is_turned_away =
                |host: usize| net.members[host].as_ref().unwrap().is_turned_away(net.now);
            assert_eq!(
                [place, there].map(is_turned_away),
                [true, false],
                "{lattice}, later: {starts_later}"
            );
            net.lives = net.now + 100;
            net.restart(place, ports);
            net.run_until(30 * WATCHDOG, is_whole);
            net.assert_directed();
        }
    }
}

#[test]
fn machines_that_have_hosts_of_the_same_numbers_stay_what_they_are_when_they_are_joined() {
    for (seed, loss) in [(5, 0.0), (6, 0.05), (7, 0.05)] {
        let mut net = Net::of("2x2", seed);
        net.loss = loss;
        let ports = 5;
        for host in 0..4 {
            net.members[host] = Some(Member::new(setup(host, ports, 1)));
        }
        // Both machines are cabled alike, or not.
        let other = if seed == 7 { Net::of("2x2", 100) } else { Net::of("2x2", seed) };
        let cables: Vec<_> = other.cables.into_iter().collect();
        let twin = |host: usize, life: u64| {
            let name = Name::of(&format!("m{host:02}"));
            Some(Member::new(Setup { name, ..setup(host, ports, life) }))
        };
        net.members.extend((0..4).map(|host| twin(host, 9)));
        net.frozen.resize(8, false);
        cables.into_iter().for_each(|(a, b)| net.plug((a.0 + 4, a.1), (b.0 + 4, b.1)));
        // A number that both machines may give is one of different orders.
        net.orders_differ = true;
        net.run(3 * SETTLE);
        let orders = |net: &Net| -> Vec<_> {
            net.members.iter().map(|member| member.as_ref().unwrap().order().cloned()).collect()
        };
        for order in orders(&net) {
            assert!(is_whole(&order.unwrap()));
        }
        let before = orders(&net);
        for (here, there) in [(0, 1), (3, 2)] {
            net.plug((here, 4), (there + 4, 4));
        }
        net.members.iter_mut().for_each(|member| drop(member.as_mut().unwrap().notices()));
        net.run(100 * WATCHDOG);
        assert_eq!(orders(&net), before);
        for (host, member) in net.members.iter_mut().enumerate() {
            let member = member.as_mut().unwrap();
            assert!(!member.is_turned_away(net.now));
            let is_told = |it: &Notice| matches!(it, Notice::OtherMachine(4, ..));
            let is_at_the_border = [0, 3, 5, 6].contains(&host);
            assert_eq!(member.notices().iter().any(is_told), is_at_the_border, "n{host:02}");
        }
        // Hosts of either begin anew, are frozen for a while, or die, at the border or not, and their own machine believes them, and no other.
        let mut life = 20;
        for host in [5, 1, 0, 4, 2, 7] {
            net.members[host] = None;
            net.run(if host % 2 == 0 { WATCHDOG / 10 } else { 3 * WATCHDOG });
            life += 1;
            let setup = Setup { life, ..setup(host % 4, ports, life) };
            let name = Name::of(&format!("{}{:02}", if host < 4 { 'n' } else { 'm' }, host % 4));
            net.members[host] = Some(Member::new(Setup { name, ..setup }));
            net.members[host].as_mut().unwrap().advance(net.now);
            net.run(20 * WATCHDOG);
            net.frozen[host] = true;
            net.run(2 * WATCHDOG);
            net.frozen[host] = false;
            net.run(20 * WATCHDOG);
            for (at, order) in orders(&net).into_iter().enumerate() {
                let member = net.members[at].as_ref().unwrap();
                assert!(!member.is_turned_away(net.now), "{host} of {seed}: n{at:02}");
                assert!(order.is_some_and(|it| is_whole(&it)), "{host} of {seed}: n{at:02}");
            }
            let before = orders(&net);
            net.run(30 * WATCHDOG);
            assert_eq!(orders(&net), before, "{host} of {seed}: orders without end");
        }
    }
}

#[test]
fn who_is_plugged_in_where_a_cable_of_its_twin_was_is_turned_away() {
    let mut net = Net::of("3x3", 8);
    net.run_until(3 * SETTLE, is_whole);
    let [there, place] = [4, 9];
    net.members.push(Some(Member::new(setup(there, 4, 99))));
    net.frozen.push(false);
    let end = (there, 2);
    let other = net.unplug(end);
    net.plug((place, 2), other);
    net.run(20 * WATCHDOG);
    let is_turned_away = |host: usize| net.members[host].as_ref().unwrap().is_turned_away(net.now);
    assert_eq!([there, place].map(is_turned_away), [false, true]);
    net.members.pop();
    net.unplug((place, 2));
    net.plug(end, other);
    net.run_until(30 * WATCHDOG, is_whole);
    net.assert_directed();
}

#[test]
fn who_has_the_name_of_a_host_that_is_there_gets_no_place_and_is_turned_away() {
    let mut net = Net::of("3x3", 6);
    net.run_until(3 * SETTLE, is_whole);
    // In the place of a dead one, with its number or another, and the name of one that lives.
    for (number, life) in [(7, 9), (u64::MAX, 1)] {
        net.members[4] = None;
        net.run_until(2 * WATCHDOG, |order| dead_nodes(order) == 1);
        let namesake = Setup { host: HostId(number), name: Name::of("n02"), ..setup(4, 4, life) };
        net.members[4] = Some(Member::new(namesake));
        net.run(3 * WATCHDOG);
        assert!(!net.members[4].as_ref().unwrap().is_turned_away(net.now), "it may be news");
        net.run(8 * WATCHDOG);
        for (host, member) in net.members.iter().enumerate() {
            let member = member.as_ref().unwrap();
            assert_eq!(member.is_turned_away(net.now), host == 4, "n{host:02}");
            assert_eq!(dead_nodes(member.order().unwrap()), 1);
            let namesakes = member.namesakes();
            assert!(namesakes[&Name::of("n02")].contains(&HostId(number)), "{namesakes:?}");
        }
    }
    net.members[4] = None;
    net.run(WATCHDOG);
    net.restart(4, 4);
    net.run_until(20 * WATCHDOG, is_whole);
    net.assert_directed();
}

#[test]
fn hosts_of_one_name_make_no_machine() {
    let mut net = Net::of("2x2", 3);
    net.members[3] = Some(Member::new(Setup { name: Name::of("n01"), ..setup(3, 4, 1) }));
    net.run(4 * SETTLE);
    let turned_away = net.alive().filter(|member| member.is_turned_away(net.now)).count();
    assert_eq!(turned_away, 1);
    assert!(net.alive().all(|member| member.order().is_none()));
    net.restart(3, 4);
    net.run_until(4 * SETTLE, is_whole);
}

#[test]
fn two_hosts_of_one_number_that_are_no_neighbours_are_told_and_do_not_talk_without_end() {
    let mut net = Net::new(4, 2, 3);
    (0..4).for_each(|host| net.plug((host, 0), ((host + 1) % 4, 1)));
    let twin = Setup { life: 9, name: Name::of("twin"), ..setup(0, 2, 1) };
    net.members[2] = Some(Member::new(twin));
    net.run(2 * SETTLE);
    let has_twin = |net: &Net, host: usize| net.members[host].as_ref().unwrap().has_twin(net.now);
    assert!(has_twin(&net, 0) && has_twin(&net, 2));
    let before = net.sent;
    net.run(1_000_000_000);
    let per_end = (net.sent - before) / 8;
    assert!(per_end < 300, "{per_end} messages a second, of which 100 say that one is there");
    net.members[2] = Some(Member::new(setup(2, 2, 1)));
    net.run_until(10 * SETTLE, is_whole);
    net.run(20 * WATCHDOG);
    assert!(!has_twin(&net, 0));
}

#[test]
fn a_host_that_starts_with_its_clock_behind_is_believed() {
    let mut net = Net::of("2x2", 8);
    net.members[1] = Some(Member::new(setup(1, 4, 1000)));
    net.run_until(3 * SETTLE, is_whole);
    net.members[1] = None;
    net.run_until(2 * WATCHDOG, |order| dead_nodes(order) == 1);
    net.members[1] = Some(Member::new(setup(1, 4, 10)));
    net.run_until(20 * WATCHDOG, is_whole);
    net.assert_directed();
    assert!(!net.members[1].as_ref().unwrap().has_twin(net.now));
}
