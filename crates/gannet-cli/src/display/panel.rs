//! A panel of fixed height at the end of the terminal's text, drawn over itself.
//!
//! The terminal is never asked where its cursor is: one that does not answer would hold the
//! program up.

use std::io::{self, Write};

use crossterm::cursor::{MoveToColumn, MoveUp};
use crossterm::queue;
use crossterm::style::{
    Attribute, Color, Print, SetAttribute, SetBackgroundColor, SetForegroundColor,
};
use crossterm::terminal::{self, Clear, ClearType};
use ratatui::backend::IntoCrossterm;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::Modifier;

/// Width when the terminal does not tell its own.
const WIDTH: u16 = 80;

/// The panel.
#[derive(Debug)]
pub struct Panel {
    height: u16,
    /// Lines of it that stand on the terminal now.
    drawn: u16,
    last: Option<Buffer>,
}

impl Panel {
    /// A panel of `height` lines; nothing is drawn yet.
    pub fn new(height: u16) -> Self {
        Self { height, drawn: 0, last: None }
    }

    /// Draws what `render` puts into the panel's area.
    pub fn draw(&mut self, render: impl FnOnce(Rect, &mut Buffer)) -> io::Result<()> {
        let (width, lines) = terminal::size().unwrap_or((WIDTH, self.height + 1));
        // A line as wide as the terminal would wrap on some; one line stays for the cursor.
        let area = Rect::new(0, 0, width.saturating_sub(1), self.height.min(lines.max(2) - 1));
        let mut buffer = Buffer::empty(area);
        render(area, &mut buffer);
        let mut out = io::stderr().lock();
        self.erase(&mut out)?;
        self.put(&buffer, &mut out)?;
        self.last = Some(buffer);
        out.flush()
    }

    /// Puts text above the panel.
    pub fn note(&mut self, text: &str) -> io::Result<()> {
        let mut out = io::stderr().lock();
        self.erase(&mut out)?;
        queue!(out, Print(text), Print("\n"))?;
        if let Some(buffer) = self.last.take() {
            self.put(&buffer, &mut out)?;
            self.last = Some(buffer);
        }
        out.flush()
    }

    fn erase(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.drawn > 0 {
            queue!(out, MoveUp(self.drawn), MoveToColumn(0), Clear(ClearType::FromCursorDown))?;
        }
        self.drawn = 0;
        Ok(())
    }

    fn put(&mut self, buffer: &Buffer, out: &mut impl Write) -> io::Result<()> {
        for row in buffer.content.chunks(usize::from(buffer.area.width.max(1))) {
            row.iter().try_for_each(|cell| put_cell(cell, out))?;
            queue!(out, Print("\n"))?;
        }
        self.drawn = buffer.area.height;
        Ok(())
    }
}

fn put_cell(cell: &Cell, out: &mut impl Write) -> io::Result<()> {
    let bold = cell.modifier.contains(Modifier::BOLD);
    let (front, back) = (cell.fg.into_crossterm(), cell.bg.into_crossterm());
    let plain = !bold && front == Color::Reset && back == Color::Reset;
    if plain {
        return queue!(out, Print(cell.symbol()));
    }
    queue!(out, SetForegroundColor(front), SetBackgroundColor(back))?;
    if bold {
        queue!(out, SetAttribute(Attribute::Bold))?;
    }
    queue!(out, Print(cell.symbol()), SetAttribute(Attribute::Reset))
}
