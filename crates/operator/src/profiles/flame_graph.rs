//! A profile as a flame graph: an SVG picture in which a function is as wide as its part of the samples, and stands
//! on its caller. In a browser, a click on a function shows it over the whole width.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write as _};

use super::profile::Profile;

const WIDTH: f64 = 1_200.0;
const MARGIN: f64 = 10.0;
const CHARACTER_WIDTH: f64 = 7.3;
const ROW: usize = 17;
/// The title above the rows.
const HEAD: usize = 34;
/// A function that would be narrower is left out. So the picture has a bound.
const WIDTH_MIN: f64 = 0.2;

/// Shows a function over the whole width when it is clicked.
const SCRIPT: &str = "\
const frames = [...document.querySelectorAll('g')], whole = 1180;
function show(from, width) {
  for (const frame of frames) {
    const { x, w } = frame.dataset, left = Math.max((x - from) / width, 0);
    const wide = (Math.min((+x + +w - from) / width, 1) - left) * whole;
    frame.style.display = wide < 0.2 ? 'none' : '';
    const [box, text] = frame.querySelectorAll('rect, text');
    box.setAttribute('x', 10 + left * whole);
    box.setAttribute('width', Math.max(wide, 0));
    text.setAttribute('x', 13 + left * whole);
    const fits = Math.floor((wide - 6) / 7.3), name = frame.dataset.name;
    text.textContent = fits < 3 ? '' : name.length > fits ? name.slice(0, fits - 2) + '..' : name;
  }
}
for (const frame of frames) frame.onclick = () => show(frame.dataset.x, frame.dataset.w);
";

/// A function, as called by those below it.
#[derive(Default)]
struct Node<'a> {
    samples: u64,
    calls: BTreeMap<&'a str, Node<'a>>,
}

impl Node<'_> {
    fn depth(&self) -> usize {
        1 + self.calls.values().map(Node::depth).max().unwrap_or_default()
    }
}

impl Profile {
    /// The profile as a picture, in SVG.
    pub fn flame_graph(&self, title: &str) -> String {
        let mut root = Node::default();
        for stack in &self.stacks {
            root.samples += stack.samples;
            let names = stack.functions.iter().rev().map(|function| &*function.name);
            let mut node = &mut root;
            for name in std::iter::once(&*stack.thread).chain(names) {
                node = node.calls.entry(name).or_default();
                node.samples += stack.samples;
            }
        }
        let mut picture = Picture { all: root.samples, rows: root.depth(), text: String::new() };
        let seconds = self.duration.as_secs_f64();
        let cpu = self.samples() as f64 / self.samples_per_second as f64;
        let heading = format!("{title}: {cpu:.1} s of CPU time in {seconds:.1} s");
        // Writing to a string cannot fail.
        picture.write(&heading, &root).expect("a string takes all");
        picture.text
    }
}

struct Picture {
    all: u64,
    rows: usize,
    text: String,
}

impl Picture {
    fn write(&mut self, heading: &str, root: &Node<'_>) -> fmt::Result {
        let height = HEAD + self.rows * ROW + 10;
        writeln!(
            self.text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"100%\" \
             font-family=\"monospace\" font-size=\"12\">\n<style>g:hover rect {{ stroke: #000 }} \
             text {{ pointer-events: none }}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text x=\"{MARGIN}\" y=\"20\" font-size=\"14\">{}</text>",
            Escaped(heading)
        )?;
        match self.all {
            0 => {
                self.text.push_str("<text x=\"10\" y=\"46\">The process used no CPU time.</text>\n")
            }
            _ => {
                self.frame("all", root, 0, 0)?;
                writeln!(self.text, "<script><![CDATA[\n{SCRIPT}]]></script>")?;
            }
        }
        self.text.push_str("</svg>\n");
        Ok(())
    }

    /// Writes a function and those that it calls. `before`: the samples to the left of it.
    fn frame(&mut self, name: &str, node: &Node<'_>, before: u64, row: usize) -> fmt::Result {
        let all = self.all as f64;
        let (left, part) = (before as f64 / all, node.samples as f64 / all);
        let inner = WIDTH - 2.0 * MARGIN;
        if part * inner < WIDTH_MIN {
            return Ok(());
        }
        // The root is at the bottom, so that a function stands on its caller.
        let y = HEAD + (self.rows - 1 - row) * ROW;
        let (x, width) = (MARGIN + left * inner, part * inner);
        let (samples, percent, colour) = (node.samples, part * 100.0, Colour(name));
        let name_text = Escaped(name);
        writeln!(
            self.text,
            "<g data-x=\"{left:.6}\" data-w=\"{part:.6}\" data-name=\"{name_text}\"><title>{name_text}: \
             {samples} samples, {percent:.1} %</title><rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" \
             height=\"16\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{}\">{}</text></g>",
            x + 3.0,
            y + 12,
            Escaped(&clipped(name, width))
        )?;
        let mut before = before;
        for (name, call) in &node.calls {
            self.frame(name, call, before, row + 1)?;
            before += call.samples;
        }
        Ok(())
    }
}

/// As much of a name as fits into a width; the script does the same.
fn clipped(name: &str, width: f64) -> String {
    let fits = ((width - 6.0) / CHARACTER_WIDTH).max(0.0) as usize;
    match name.chars().count() {
        _ if fits < 3 => String::new(),
        length if length <= fits => name.to_owned(),
        _ => name.chars().take(fits - 2).chain("..".chars()).collect(),
    }
}

struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                c if c.is_control() => f.write_char(char::REPLACEMENT_CHARACTER)?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// The colour of a function: the same in every picture, and another one than that of most functions.
struct Colour<'a>(&'a str);

impl Display for Colour<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hash = self
            .0
            .bytes()
            .fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        // From orange to yellow, so that black text is readable.
        write!(f, "rgb({},{},80)", 225 + hash % 30, 120 + hash / 30 % 110)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::super::profile::{Function, Stack};
    use super::*;

    fn stack(names: &[&str], samples: u64) -> Stack {
        let functions = names.iter().rev().map(|name| Function {
            name: (*name).into(),
            file: "".into(),
            line: 0,
        });
        Stack { thread: "shard-0".into(), functions: functions.collect(), samples }
    }

    fn graph(stacks: Vec<Stack>) -> String {
        let (began, duration) = (SystemTime::UNIX_EPOCH, Duration::from_secs(2));
        Profile { began, duration, samples_per_second: 100, stacks }.flame_graph("A <title> & more")
    }

    #[test]
    fn a_function_is_as_wide_as_its_part_of_the_samples_and_stands_on_its_caller() {
        let graph = graph(vec![stack(&["main", "read"], 30), stack(&["main", "write<T>"], 70)]);
        assert!(graph.contains(">A &lt;title&gt; &amp; more: 1.0 s of CPU time in 2.0 s</text>"));
        let frame = |name: &str| {
            let (_, rest) = graph.split_once(&format!("<title>{name}: ")).expect(name);
            rest.split("</g>").next().unwrap().to_owned()
        };
        assert!(frame("main").contains("100 samples, 100.0 %"));
        let (read, write) = (frame("read"), frame("write&lt;T&gt;"));
        assert!(read.contains(r#"x="10.0" y="34" width="354.0""#), "{read}");
        assert!(write.contains(r#"x="364.0" y="34" width="826.0""#), "{write}");
        assert!(frame("main").contains(r#"y="51""#) && frame("all").contains(r#"y="85""#));
    }

    #[test]
    fn a_picture_of_no_samples_says_so_and_narrow_functions_are_left_out() {
        assert!(graph(Vec::new()).contains("The process used no CPU time."));
        let graph = graph(vec![stack(&["seldom"], 1), stack(&["often"], 1_000_000)]);
        assert!(graph.contains("often") && !graph.contains("seldom"));
    }
}
