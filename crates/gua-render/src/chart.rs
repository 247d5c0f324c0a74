//! Charts as SVG, drawn as strings: plain numbers in, a picture out. Nothing is computed here that a report does not
//! print as well.
