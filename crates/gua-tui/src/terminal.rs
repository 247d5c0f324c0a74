//! The real terminal: its own screen while we draw, and as it was before when we leave, whatever the reason.

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
use crate::line::Line;
use crate::view;

/// How long one page may take on its way out when we leave.
const PATIENCE: Duration = Duration::from_millis(500);

/// Whether there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Palette {
    Colour,
    /// Bold, dim and reversed text only.
    Plain,
}

/// The terminal while it is ours.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Page>>,
    page: Page,
    line: Line,
    is_ours: bool,
}

/// What is drawn and not sent yet.
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

impl std::fmt::Debug for Screen {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Screen")
            .field("line", &self.line)
            .field("is_ours", &self.is_ours)
            .finish_non_exhaustive()
    }
}

impl Screen {
    /// Takes the terminal over. `on_written` is called, in another thread, when a page has reached it.
    pub fn enter(palette: Palette, on_written: impl Fn() + Send + 'static) -> io::Result<Self> {
        // Its own look at NO_COLOR would come on top of what the program has decided.
        crossterm::style::force_color_output(palette == Palette::Colour);
        let page = Page::default();
        let mut screen = Self {
            terminal: Terminal::new(CrosstermBackend::new(page.clone()))?,
            page,
            line: Line::to(io::stdout(), on_written)?,
            is_ours: false,
        };
        screen.take()?;
        Ok(screen)
    }

    /// Takes it again, after [`Screen::leave`] or after another program had it while we were stopped, and draws everything
    /// anew next time.
    pub fn take(&mut self) -> io::Result<()> {
        if self.is_ours {
            // It would believe that the mode is as it left it.
            disable_raw_mode()?;
        }
        enable_raw_mode()?;
        self.is_ours = true;
        queue!(self.page, EnterAlternateScreen, Hide)?;
        self.forget()
    }

    /// Draws everything anew next time: something else wrote on the screen.
    pub fn forget(&mut self) -> io::Result<()> {
        // Its own `clear` asks the terminal where the cursor is, which another thread would read as keys.
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::from((Position::ORIGIN, size)))
    }

    /// Draws what has changed, as one update where the terminal knows that; nothing while the last picture is still on its
    /// way, so that a slow line gets the newest one next and not all of them. Returns whether it was drawn.
    pub fn draw(&mut self, app: &mut App, now: Timestamp) -> io::Result<bool> {
        if !self.line.is_free()? {
            return Ok(false);
        }
        queue!(self.page, BeginSynchronizedUpdate)?;
        self.terminal.draw(|frame| {
            let area = frame.area();
            view::draw(app, area, frame.buffer_mut(), now);
        })?;
        queue!(self.page, EndSynchronizedUpdate)?;
        self.line.send(self.page.0.take())?;
        Ok(true)
    }

    /// Gives it back as it was. A terminal that takes nothing gets its mode back, and what can still be sent to it; this
    /// takes seconds at most.
    pub fn leave(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.is_ours) {
            return Ok(());
        }
        let mode = disable_raw_mode();
        // What was drawn and not sent is of no use any more.
        self.page.0.take();
        if !self.say_goodbye()? {
            // Nobody has read what waits; without it there is room for the last words.
            throw_away_what_waits()?;
            self.say_goodbye()?;
        }
        mode
    }

    /// Whether the last words got through in time.
    fn say_goodbye(&mut self) -> io::Result<bool> {
        if !self.line.is_free_within(PATIENCE)? {
            return Ok(false);
        }
        queue!(self.page, EndSynchronizedUpdate, LeaveAlternateScreen, Show)?;
        self.line.send(self.page.0.take())?;
        self.line.is_free_within(PATIENCE)
    }
}

fn throw_away_what_waits() -> io::Result<()> {
    let out = io::stdout();
    tcflush(&out, QueueSelector::OFlush)?;
    // Linux does not wake who waits to write after that, but it does when the mode is set, also to what it is
    // (n_tty_set_termios).
    tcsetattr(&out, OptionalActions::Now, &tcgetattr(&out)?)?;
    Ok(())
}

impl Drop for Screen {
    fn drop(&mut self) {
        // With the terminal gone there is nothing left to give back.
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
