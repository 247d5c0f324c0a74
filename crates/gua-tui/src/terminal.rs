//! The real terminal: its own screen while we draw, and as it was before when we leave, whatever the reason.

use std::io::{self, BufWriter, Stdout, Write as _};

use crossterm::cursor::{Hide, Show};
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};
use jiff::Timestamp;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::{Position, Rect};

use crate::app::App;
use crate::key::Input;
use crate::view;

/// Whether there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Palette {
    Colour,
    /// Bold, dim and reversed text only.
    Plain,
}

/// The terminal while it is ours.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    is_ours: bool,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Screen")
            .field("is_ours", &self.is_ours)
            .finish_non_exhaustive()
    }
}

impl Screen {
    /// Takes the terminal over. [`restore`] has to be called wherever dropping this does not happen.
    pub fn enter(palette: Palette) -> io::Result<Self> {
        // Its own look at NO_COLOR would come on top of what the program has decided.
        crossterm::style::force_color_output(palette == Palette::Colour);
        let out = BufWriter::with_capacity(1 << 16, io::stdout());
        let mut screen = Self {
            terminal: Terminal::new(CrosstermBackend::new(out))?,
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
        execute!(self.terminal.backend_mut(), EnterAlternateScreen, Hide)?;
        self.forget()
    }

    /// Draws everything anew next time: something else wrote on the screen.
    pub fn forget(&mut self) -> io::Result<()> {
        // Its own `clear` asks the terminal where the cursor is, which another thread would read as keys.
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::from((Position::ORIGIN, size)))
    }

    /// Draws what has changed, as one update where the terminal knows that.
    pub fn draw(&mut self, app: &mut App, now: Timestamp) -> io::Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(|frame| {
            let area = frame.area();
            view::draw(app, area, frame.buffer_mut(), now);
        })?;
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate)
    }

    /// Gives it back.
    pub fn leave(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_ours) {
            self.terminal.backend_mut().flush()?;
            restore()?;
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // With the terminal gone there is nothing left to give back.
        let _ = self.leave();
    }
}

/// Gives the terminal back as it was, from anywhere: a panic, a signal.
pub fn restore() -> io::Result<()> {
    let shown = execute!(
        io::stdout(),
        EndSynchronizedUpdate,
        LeaveAlternateScreen,
        Show
    );
    disable_raw_mode().and(shown)
}

/// Waits for the next input.
pub fn read_input() -> io::Result<Input> {
    loop {
        if let Some(input) = Input::of(&crossterm::event::read()?) {
            return Ok(input);
        }
    }
}
