//! The real terminal: an alternate screen while the program draws, and its former state afterwards, whatever the reason
//! for leaving.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use crossterm::cursor::{Hide, Show};
use crossterm::queue;
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use jiff::Timestamp;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::{Position, Rect};
use rustix::termios::{OptionalActions, QueueSelector, tcflush, tcgetattr, tcsetattr};

use crate::app::App;
use crate::key::Input;
use crate::view;
use crate::writer::Writer;

/// Maximum time to write a page when leaving.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(500);

/// Use of colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Palette {
    Colour,
    /// Bold, dim and reversed text only.
    Plain,
}

/// The terminal while this program uses it.
#[derive(Debug)]
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Page>>,
    page: Page,
    writer: Writer,
    is_ours: bool,
}

/// Output that was drawn and not sent yet.
#[derive(Clone, Debug, Default)]
struct Page(Rc<RefCell<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Screen {
    /// Takes over the terminal. `on_written` is called, in another thread, when a page was written.
    pub fn enter(palette: Palette, on_written: impl Fn() + Send + 'static) -> io::Result<Self> {
        // crossterm checks NO_COLOR itself, but the program has decided already.
        crossterm::style::force_color_output(palette == Palette::Colour);
        let page = Page::default();
        let mut screen = Self {
            terminal: Terminal::new(CrosstermBackend::new(page.clone()))?,
            page,
            writer: Writer::to(io::stdout(), on_written)?,
            is_ours: false,
        };
        screen.take()?;
        Ok(screen)
    }

    /// Takes over the terminal again, after [`Screen::leave`] or after another program used it while this one was
    /// stopped, and redraws everything next time.
    pub fn take(&mut self) -> io::Result<()> {
        if self.is_ours {
            // crossterm assumes that the mode is still as it left it.
            disable_raw_mode()?;
        }
        enable_raw_mode()?;
        self.is_ours = true;
        queue!(self.page, EnterAlternateScreen, Hide)?;
        self.forget()
    }

    /// Redraws everything next time: another program wrote on the screen.
    pub fn forget(&mut self) -> io::Result<()> {
        // ratatui's `clear` queries the cursor position, and another thread would read the answer as keys.
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::from((Position::ORIGIN, size)))
    }

    /// Draws the changes, as one synchronised update if the terminal supports it. Draws nothing while the last page is
    /// still being written, so that a slow connection gets the newest page next instead of all of them. Returns whether
    /// it drew.
    pub fn draw(&mut self, app: &mut App, now: Timestamp) -> io::Result<bool> {
        if !self.writer.is_free()? {
            return Ok(false);
        }
        queue!(self.page, BeginSynchronizedUpdate)?;
        self.terminal.draw(|frame| {
            let area = frame.area();
            view::draw(app, area, frame.buffer_mut(), now);
        })?;
        queue!(self.page, EndSynchronizedUpdate)?;
        self.writer.send(self.page.0.take())?;
        Ok(true)
    }

    /// Restores the terminal. One that accepts no data gets its mode back, and as much output as can still be sent;
    /// this takes a few seconds at most.
    pub fn leave(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.is_ours) {
            return Ok(());
        }
        let mode = disable_raw_mode();
        // Drop what was drawn and not sent.
        self.page.0.take();
        if !self.write_last_sequences()? {
            // Discard unread output, so that there is space for the last sequences.
            discard_unread_output()?;
            self.write_last_sequences()?;
        }
        mode
    }

    /// Reports whether the last sequences were written in time.
    fn write_last_sequences(&mut self) -> io::Result<bool> {
        if !self.writer.is_free_within(LEAVE_TIMEOUT)? {
            return Ok(false);
        }
        queue!(self.page, EndSynchronizedUpdate, LeaveAlternateScreen, Show)?;
        self.writer.send(self.page.0.take())?;
        self.writer.is_free_within(LEAVE_TIMEOUT)
    }
}

fn discard_unread_output() -> io::Result<()> {
    let out = io::stdout();
    tcflush(&out, QueueSelector::OFlush)?;
    // Linux does not wake a blocked writer after that, but it does when the mode is set, even to the same value
    // (n_tty_set_termios).
    tcsetattr(&out, OptionalActions::Now, &tcgetattr(&out)?)?;
    Ok(())
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal is gone: nothing to restore.
        let _ = self.leave();
    }
}

/// Waits for the next input.
pub fn read_input() -> io::Result<Input> {
    loop {
        if let Some(input) = Input::of(&crossterm::event::read()?) {
            return Ok(input);
        }
    }
}
