use super::*;

/// Text on terminals and areas beside text must reach 3:1 (WCAG 2.2, 1.4.11), text on pages 4.5:1 (1.4.3).
const READABLE: f64 = 3.0;
const READABLE_ON_PAGES: f64 = 4.5;

type Rgb = [f64; 3];

/// Matrices in linear RGB after Machado, Oliveira and Fernandes (2009), severity 1: full colour vision, protanopia,
/// deuteranopia and tritanopia.
const VISION: [(&str, [Rgb; 3]); 4] = [
    ("full", [[1., 0., 0.], [0., 1., 0.], [0., 0., 1.]]),
    (
        "protanopia",
        [
            [0.152_286, 1.052_583, -0.204_868],
            [0.114_503, 0.786_281, 0.099_216],
            [-0.003_882, -0.048_116, 1.051_998],
        ],
    ),
    (
        "deuteranopia",
        [
            [0.367_322, 0.860_646, -0.227_968],
            [0.280_085, 0.672_501, 0.047_413],
            [-0.011_820, 0.042_940, 0.968_881],
        ],
    ),
    (
        "tritanopia",
        [
            [1.255_528, -0.076_749, -0.178_779],
            [-0.078_411, 0.930_809, 0.147_602],
            [0.004_733, 0.691_367, 0.303_900],
        ],
    ),
];

fn linear(bytes: [u8; 3]) -> Rgb {
    bytes.map(|byte| {
        let value = f64::from(byte) / 255.0;
        if value <= 0.04045 {
            value / 12.92
        } else {
            ((value + 0.055) / 1.055).powf(2.4)
        }
    })
}

fn hex(colour: &str) -> Rgb {
    let part = |at: usize| u8::from_str_radix(&colour[at..at + 2], 16).unwrap();
    assert_eq!(colour.len(), 7);
    linear([part(1), part(3), part(5)])
}

/// Colours 16 to 231 of a terminal are a cube, 232 to 255 a ramp of greys.
fn xterm(number: u8) -> Rgb {
    const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let level = |of: u8| LEVELS[usize::from(of % 6)];
    match number {
        0..16 => panic!("users redefine colour {number}"),
        16..232 => {
            let place = number - 16;
            linear([level(place / 36), level(place / 6), level(place)])
        }
        232.. => linear([8 + (number - 232) * 10; 3]),
    }
}

fn luminance([red, green, blue]: Rgb) -> f64 {
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(one: Rgb, other: Rgb) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// Distance in CIELAB (D65); about 2.3 is a just noticeable difference.
fn distance(one: Rgb, other: Rgb, vision: &[Rgb; 3]) -> f64 {
    let lab = |colour: Rgb| -> [f64; 3] {
        let seen = vision.map(|row| {
            let sum: f64 = row.iter().zip(colour).map(|(a, b)| a * b).sum();
            sum.clamp(0.0, 1.0)
        });
        let [red, green, blue] = seen;
        let xyz = [
            (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.950_47,
            luminance(seen),
            (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.088_83,
        ];
        let [x, y, z] = xyz.map(|value: f64| match value > 0.008_856 {
            true => value.cbrt(),
            false => 7.787 * value + 16.0 / 116.0,
        });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    };
    let squares = lab(one).into_iter().zip(lab(other));
    squares.map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

fn pairs() -> impl Iterator<Item = (Tone, Tone)> {
    let all = Tone::ALL.into_iter().enumerate();
    all.flat_map(|(at, one)| Tone::ALL[at + 1..].iter().map(move |other| (one, *other)))
}

#[test]
fn terminal_colours_are_readable_on_light_and_dark_backgrounds() {
    let terminal = Tone::ALL.map(|tone| tone.colours().terminal);
    for ground in ["#ffffff", "#fdf6e3", "#000000", "#1e1e1e"] {
        for colour in terminal.into_iter().chain([MUTED]) {
            let found = contrast(xterm(colour), hex(ground));
            assert!(found >= READABLE, "{colour} on {ground}: {found:.2}");
        }
    }
}

#[test]
fn text_is_readable_on_pages() {
    for tone in Tone::ALL {
        let ink = tone.colours().ink;
        for (colour, grounds) in [
            (ink.light, ["#ffffff", "#f5f7f9"]),
            (ink.dark, ["#12171d", "#181f27"]),
        ] {
            for ground in grounds {
                let found = contrast(hex(colour), hex(ground));
                assert!(found >= READABLE_ON_PAGES, "{tone:?} on {ground}: {found}");
            }
        }
    }
}

#[test]
fn tones_are_distinguishable_for_colour_blind_readers() {
    let main = [Tone::Active, Tone::IdleHeld, Tone::Free];
    for (one, other) in pairs() {
        let (a, b) = (one.colours(), other.colours());
        let both_main = main.contains(&one) && main.contains(&other);
        let enough = if both_main { 14.0 } else { 9.0 };
        for (name, vision) in VISION {
            let terminal = distance(xterm(a.terminal), xterm(b.terminal), &vision);
            let differs = terminal >= enough || a.emphasis != b.emphasis;
            assert!(differs, "{one:?}, {other:?}, {name}: {terminal:.1}");
            for (a, b) in [(a.fill.light, b.fill.light), (a.fill.dark, b.fill.dark)] {
                let found = distance(hex(a), hex(b), &vision);
                assert!(found >= 8.0, "{one:?}, {other:?}, {name}: {found:.1}");
            }
        }
        assert_ne!(a.glyph, b.glyph, "{one:?} and {other:?}");
        assert_ne!(one.as_str(), other.as_str());
    }
}

#[test]
fn every_state_has_the_tone_of_its_share() {
    for state in State::ALL {
        let expected = match state.roll_up() {
            Some(class) => Tone::from(class),
            None if state == State::HeldUnknown => Tone::HeldUnknown,
            None => Tone::Gap,
        };
        assert_eq!(Tone::of(state), expected, "{state}");
    }
}
