use gannet_wire::roce::Repr;

use super::*;

const SENDER: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 40_000);
const STRANGER: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 40_001);
const KEY: u32 = 0x1234_5678;

fn window() -> Window {
    Window { key: KEY, start: 0x1_0000, cell_bytes: 100, cells: 8, lengths: 50..=100 }
}

fn packet(opcode: Opcode, sequence: u32, write: Write, data: &[u8]) -> Vec<u8> {
    let repr = Repr { sequence, write, data_len: data.len(), ..Repr::new(opcode) };
    let mut bytes = vec![0; repr.buffer_len()];
    bytes[opcode.headers_len()..][..data.len()].copy_from_slice(data);
    repr.emit(&mut bytes);
    bytes
}

fn to_cell(cell: u64, length: u32) -> Write {
    Write { address: 0x1_0000 + 100 * cell, key: KEY, length }
}

/// Message, or the reason why not; packets missing, and unfinished.
type Given = (Result<Option<Vec<u8>>, SourceDrop>, u32, u64);

/// What becomes of a packet.
fn give(connection: &mut Connection, sender: SocketAddrV4, bytes: &[u8]) -> Given {
    give_at(connection, 0, sender, bytes)
}

fn give_at(connection: &mut Connection, now_ns: u64, sender: SocketAddrV4, bytes: &[u8]) -> Given {
    let packet = Packet::new_checked(bytes).unwrap();
    let admitted = match connection.admit(&window(), sender, now_ns, &packet) {
        Ok(admitted) => admitted,
        Err(reason) => return (Err(reason), 0, 0),
    };
    let taken = connection.take(&window(), admitted, &packet);
    let fate = match taken.fate {
        Fate::Refused(reason) => Err(reason),
        Fate::Kept => Ok(None),
        Fate::Message(message) => Ok(Some(message.to_vec())),
    };
    (fate, taken.missing, taken.unfinished)
}

fn only(sequence: u32) -> Vec<u8> {
    packet(Opcode::WriteOnly, sequence, to_cell(0, 60), &[7; 60])
}

#[test]
fn messages_of_one_and_of_many_packets_come_whole() {
    let mut connection = Connection::new(0);
    let whole = (Ok(Some(vec![7; 60])), 0, 0);
    assert_eq!(give(&mut connection, SENDER, &only(NUMBERS - 1)), whole);
    let none = Write::default();
    let parts = [
        packet(Opcode::WriteFirst, 0, to_cell(7, 100), &[1; 40]),
        packet(Opcode::WriteMiddle, 1, none, &[2; 40]),
    ];
    parts.iter().for_each(|part| assert_eq!(give(&mut connection, SENDER, part), (Ok(None), 0, 0)));
    let last = packet(Opcode::WriteLastImmediate, 2, none, &[3; 20]);
    let message = [[1; 40].as_slice(), &[2; 40], &[3; 20]].concat();
    assert_eq!(give(&mut connection, SENDER, &last), (Ok(Some(message)), 0, 0));
}

#[test]
fn a_gap_is_as_many_packets_missing_and_ends_the_message() {
    let mut connection = Connection::new(0);
    let first = packet(Opcode::WriteFirst, 10, to_cell(0, 100), &[1; 40]);
    let last = packet(Opcode::WriteLast, 12, Write::default(), &[1; 20]);
    assert_eq!(give(&mut connection, SENDER, &first), (Ok(None), 0, 0));
    assert_eq!(give(&mut connection, SENDER, &last), (Err(SourceDrop::Unfinished), 1, 1));
    assert_eq!(give(&mut connection, SENDER, &only(17)), (Ok(Some(vec![7; 60])), 4, 0));
    // Late, twice, and one that never began.
    for sequence in [16, 17] {
        let late = (Err(SourceDrop::OutOfTurn), 0, 0);
        assert_eq!(give(&mut connection, SENDER, &only(sequence)), late);
    }
    let last = packet(Opcode::WriteLast, 18, Write::default(), &[1; 60]);
    assert_eq!(give(&mut connection, SENDER, &last), (Err(SourceDrop::Unfinished), 0, 0));
    // A message that another follows before its end.
    let first = packet(Opcode::WriteFirst, 19, to_cell(0, 100), &[1; 40]);
    assert_eq!(give(&mut connection, SENDER, &first), (Ok(None), 0, 0));
    assert_eq!(give(&mut connection, SENDER, &only(20)), (Ok(Some(vec![7; 60])), 0, 1));
}

#[test]
fn a_stranger_neither_writes_nor_moves_the_sequence_on() {
    let mut connection = Connection::new(0);
    assert_eq!(
        give(&mut connection, SENDER, &packet(Opcode::WriteFirst, 5, to_cell(1, 60), &[7; 40])),
        (Ok(None), 0, 0)
    );
    let wrong = Write { key: KEY ^ 1, ..to_cell(0, 60) };
    let forged = packet(Opcode::WriteOnly, 900, wrong, &[7; 60]);
    assert_eq!(give(&mut connection, STRANGER, &forged), (Err(SourceDrop::WrongKey), 0, 0));
    for opcode in [Opcode::WriteMiddle, Opcode::WriteLast] {
        let forged = packet(opcode, 6, Write::default(), &[9; 20]);
        assert_eq!(give(&mut connection, STRANGER, &forged), (Err(SourceDrop::OutOfTurn), 0, 0));
    }
    let send = packet(Opcode::SendOnly, 6, Write::default(), &[9; 20]);
    assert_eq!(give(&mut connection, SENDER, &send), (Err(SourceDrop::Malformed), 0, 0));
    let last = packet(Opcode::WriteLast, 6, Write::default(), &[7; 20]);
    assert_eq!(give(&mut connection, SENDER, &last), (Ok(Some(vec![7; 60])), 0, 0));
}

#[test]
fn what_does_not_fit_the_window_is_refused_and_counts_in_the_sequence() {
    let mut connection = Connection::new(0);
    let place = |address, length| Write { address, length, ..to_cell(0, 60) };
    let refused = [
        (place(0xffff, 60), SourceDrop::OutsideWindow),
        (place(0x1_0001, 60), SourceDrop::OutsideWindow),
        (place(0x1_0000 + 800, 60), SourceDrop::OutsideWindow),
        (place(u64::MAX, 60), SourceDrop::OutsideWindow),
        (place(0x1_0000, 49), SourceDrop::WrongLength),
        (place(0x1_0000, 101), SourceDrop::WrongLength),
        (place(0x1_0000, u32::MAX), SourceDrop::WrongLength),
        (place(0x1_0000, 0), SourceDrop::Empty),
        (place(0x1_0000, 61), SourceDrop::Malformed),
    ];
    for (sequence, (write, reason)) in (0..).zip(refused) {
        let bytes = packet(Opcode::WriteOnlyImmediate, sequence, write, &[7; 60]);
        assert_eq!(give(&mut connection, SENDER, &bytes), (Err(reason), 0, 0));
    }
    // One that is refused takes its other packets with it.
    let mut other = Connection::new(0);
    let first = packet(Opcode::WriteFirst, 0, place(0x1_0000, 101), &[7; 60]);
    assert_eq!(give(&mut other, SENDER, &first), (Err(SourceDrop::WrongLength), 0, 0));
    for (sequence, opcode) in [(1, Opcode::WriteMiddle), (2, Opcode::WriteLast)] {
        let part = packet(opcode, sequence, Write::default(), &[7; 60]);
        assert_eq!(give(&mut other, SENDER, &part), (Ok(None), 0, 0));
    }
    let part = packet(Opcode::WriteLast, 3, Write::default(), &[7; 60]);
    assert_eq!(give(&mut other, SENDER, &part), (Err(SourceDrop::Unfinished), 0, 0));
    // Parts that are more or less than the whole.
    let long = packet(Opcode::WriteFirst, 9, to_cell(0, 60), &[7; 60]);
    assert_eq!(give(&mut connection, SENDER, &long), (Err(SourceDrop::Malformed), 0, 0));
    for (sequence, opcode, len) in [(10, Opcode::WriteMiddle, 20), (12, Opcode::WriteLast, 19)] {
        let first = packet(Opcode::WriteFirst, sequence, to_cell(0, 60), &[7; 40]);
        assert_eq!(give(&mut connection, SENDER, &first), (Ok(None), 0, 0));
        let bytes = packet(opcode, sequence + 1, Write::default(), &vec![7; len]);
        assert_eq!(give(&mut connection, SENDER, &bytes), (Err(SourceDrop::Malformed), 0, 1));
    }
    assert_eq!(give(&mut connection, SENDER, &only(14)), (Ok(Some(vec![7; 60])), 0, 0));
}

#[test]
fn a_sender_that_begins_anew_is_followed() {
    let mut connection = Connection::new(0);
    let whole = (Ok(Some(vec![7; 60])), 0, 0);
    assert_eq!(give(&mut connection, SENDER, &only(5000)), whole);
    assert_eq!(give(&mut connection, SENDER, &only(0)), whole, "far behind");
    assert_eq!(give(&mut connection, SENDER, &only(1)), whole);
}

#[test]
fn a_queue_pair_is_its_senders_until_that_is_silent() {
    let mut connection = Connection::new(0);
    let whole = (Ok(Some(vec![7; 60])), 0, 0);
    let taken = (Err(SourceDrop::TakenQueuePair), 0, 0);
    let first = packet(Opcode::WriteFirst, 6, to_cell(1, 60), &[7; 40]);
    let last = packet(Opcode::WriteLast, 7, Write::default(), &[7; 20]);
    assert_eq!(give_at(&mut connection, 5, SENDER, &only(5)), whole);
    assert_eq!(give_at(&mut connection, 6, SENDER, &first), (Ok(None), 0, 0));
    assert_eq!(give_at(&mut connection, 7, STRANGER, &only(7)), taken);
    assert_eq!(give_at(&mut connection, SILENCE_NS, SENDER, &last), whole);
    // What strangers send does not count as a sign of life, nor keep others out.
    let then = 2 * SILENCE_NS;
    assert_eq!(give_at(&mut connection, then - 1, STRANGER, &only(900)), taken);
    assert_eq!(give_at(&mut connection, then, STRANGER, &only(900)), whole);
    assert_eq!(give_at(&mut connection, then, SENDER, &only(8)), taken);
    assert_eq!(give_at(&mut connection, then, STRANGER, &only(901)), whole);
}
