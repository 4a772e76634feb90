//! Plots as SVG: small enough for a phone, and sharp on anything larger.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::table::figure;

/// Units of an SVG's own; the page scales it. Text of 15 of them (the backend
/// takes that for the height of a line) stays readable on a phone.
const WIDTH: i32 = 440;
const TEXT: u32 = 15;
/// From one bar to the next, and between groups of them.
const BAR: i32 = 17;
const GAP: i32 = 9;
const INK: RGBColor = RGBColor(0x33, 0x3A, 0x45);
const FAINT: RGBColor = RGBColor(0xE3, 0xE6, 0xEB);

/// The rival's colour.
pub const THEIRS: RGBColor = RGBColor(0x9A, 0xA3, 0xAF);
/// Ours.
pub const OURS: RGBColor = RGBColor(0x1F, 0x6F, 0xC9);
/// Ours, of a second kind.
pub const OURS_TOO: RGBColor = RGBColor(0xE0, 0x7B, 0x1A);
/// Published, before.
pub const BEFORE: RGBColor = RGBColor(0xD3, 0xC4, 0xA8);
/// Published, after.
pub const AFTER: RGBColor = RGBColor(0x7E, 0x8F, 0x3E);

/// A value, and from where to where its runs spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    /// The value.
    pub value: f64,
    /// The least and the greatest.
    pub spread: Option<(f64, f64)>,
}

/// One engine's values.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its colour.
    pub colour: RGBColor,
    /// One for each category or each place on the x axis; none where it was not measured.
    pub marks: Vec<Option<Mark>>,
}

type Drawn<T> = Result<T, Box<dyn std::error::Error>>;

/// From a power of ten to a power of ten, both of which get their labels.
fn decades(lowest: f64, most: f64) -> std::ops::Range<f64> {
    10_f64.powf(lowest.log10().floor())..10_f64.powf(most.log10().ceil())
}

/// Horizontal bars, grouped by category.
#[must_use]
pub fn bars(title: &str, categories: &[&str], series: &[Series]) -> String {
    let rows = row_height(series) * count(categories.len());
    draw(58 + rows.cast_unsigned(), |area| {
        draw_bars(area, title, categories, series)
    })
}

/// Lines over a few places on the x axis; the y axis is logarithmic.
#[must_use]
pub fn lines(title: &str, x_name: &str, places: &[usize], series: &[Series]) -> String {
    draw(250, |area| draw_lines(area, title, x_name, places, series))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Text that is part of the page, in place of the picture, says so if drawing fails.
fn draw(height: u32, paint: impl FnOnce(&Area<'_>) -> Drawn<()>) -> String {
    let mut svg = String::new();
    let drawn = {
        let area =
            SVGBackend::with_string(&mut svg, (WIDTH.cast_unsigned(), height)).into_drawing_area();
        paint(&area).and_then(|()| Ok(area.present()?))
    };
    match drawn {
        Ok(()) => svg,
        Err(error) => format!("<svg viewBox='0 0 440 20'><text y='15'>{error}</text></svg>"),
    }
}

fn text(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

/// About how wide `text` is: the page, not this program, has the font.
fn text_width(text: &str) -> i32 {
    7 * count(text.chars().count())
}

fn row_height(series: &[Series]) -> i32 {
    BAR * count(series.len()) + GAP
}

fn count(of: usize) -> i32 {
    i32::try_from(of).unwrap_or(i32::MAX)
}

fn legend(area: &Area<'_>, title: &str, series: &[Series]) -> Drawn<()> {
    let bold = ("sans-serif", TEXT + 1)
        .into_font()
        .style(FontStyle::Bold)
        .color(&INK);
    area.draw_text(title, &bold, (4, 4))?;
    let mut x = 4;
    for one in series {
        area.draw(&Rectangle::new(
            [(x, 26), (x + 10, 36)],
            one.colour.filled(),
        ))?;
        area.draw_text(&one.name, &text(TEXT), (x + 14, 24))?;
        x += 30 + text_width(&one.name);
    }
    Ok(())
}

fn draw_bars(area: &Area<'_>, title: &str, categories: &[&str], series: &[Series]) -> Drawn<()> {
    legend(area, title, series)?;
    let marks = series.iter().flat_map(|one| &one.marks).flatten();
    let longest = marks.map(|mark| {
        mark.spread
            .map_or(mark.value, |(_, max)| max.min(mark.value * 1.6))
    });
    let longest = longest.fold(f64::MIN_POSITIVE, f64::max);
    let widest = categories
        .iter()
        .map(|name| text_width(name))
        .max()
        .unwrap_or(0);
    let left = (widest + 10).clamp(40, 150);
    // room for the figure at the end of the longest bar
    let scale = f64::from(WIDTH - left - 62) / longest;
    let mut y = 48;
    for (index, category) in categories.iter().enumerate() {
        let middle = y + (row_height(series) - GAP) / 2;
        let to_the_left = text(TEXT).pos(Pos::new(HPos::Right, VPos::Center));
        area.draw_text(category, &to_the_left, (left - 6, middle))?;
        for one in series {
            if let Some(mark) = one.marks.get(index).copied().flatten() {
                draw_bar(area, mark, one.colour, (left, y), scale)?;
            }
            y += BAR;
        }
        y += GAP;
    }
    area.draw(&PathElement::new(
        [(left, 44), (left, y - 4)],
        INK.stroke_width(1),
    ))?;
    Ok(())
}

fn draw_bar(
    area: &Area<'_>,
    mark: Mark,
    colour: RGBColor,
    (left, y): (i32, i32),
    scale: f64,
) -> Drawn<()> {
    let most = WIDTH - 62;
    let at = |value: f64| (left + (value * scale).round() as i32).min(most);
    let end = at(mark.value);
    area.draw(&Rectangle::new(
        [(left, y), (end.max(left + 1), y + BAR - 3)],
        colour.filled(),
    ))?;
    let mut label = end;
    if let Some((min, max)) = mark.spread {
        let (from, to) = (at(min), at(max));
        label = label.max(to);
        let whisker = INK.mix(0.55).stroke_width(1);
        area.draw(&PathElement::new([(from, y + 7), (to, y + 7)], whisker))?;
        for x in [from, to] {
            area.draw(&PathElement::new([(x, y + 4), (x, y + 10)], whisker))?;
        }
    }
    let style = text(TEXT - 1).pos(Pos::new(HPos::Left, VPos::Center));
    area.draw_text(&figure(mark.value), &style, (label + 5, y + 7))?;
    Ok(())
}

fn draw_lines(
    area: &Area<'_>,
    title: &str,
    x_name: &str,
    places: &[usize],
    series: &[Series],
) -> Drawn<()> {
    legend(area, title, series)?;
    let values = || {
        series
            .iter()
            .flat_map(|one| &one.marks)
            .flatten()
            .map(|mark| mark.value)
    };
    let lowest = values().fold(f64::INFINITY, f64::min);
    let most = values().fold(f64::MIN_POSITIVE, f64::max);
    if !lowest.is_finite() || lowest <= 0.0 {
        return Ok(());
    }
    let last = places.len().saturating_sub(1) as f64;
    let mut chart = ChartBuilder::on(area)
        .margin_top(44)
        .margin_right(14)
        .set_label_area_size(LabelAreaPosition::Left, 52)
        .set_label_area_size(LabelAreaPosition::Bottom, 36)
        .build_cartesian_2d(-0.2..last + 0.2, decades(lowest, most).log_scale())?;
    let name = |x: &f64| {
        let near = |index: usize| (x - index as f64).abs() < 1e-6;
        let mut here = places.iter().enumerate().filter(|(index, _)| near(*index));
        here.next()
            .map_or(String::new(), |(_, place)| place.to_string())
    };
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(FAINT)
        .axis_style(INK)
        .label_style(text(TEXT - 1))
        .disable_x_mesh()
        .x_labels(places.len())
        .y_labels(4)
        .x_label_formatter(&name)
        .x_desc(x_name)
        .y_label_formatter(&|y| figure(*y))
        .draw()?;
    for one in series {
        let places = one.marks.iter().enumerate();
        let points = places.filter_map(|(x, mark)| Some((x as f64, (*mark)?.value)));
        let points = points.collect::<Vec<_>>();
        let style = one.colour.stroke_width(2);
        chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
        let dots = points
            .iter()
            .map(|&point| Circle::new(point, 3, one.colour.filled()));
        chart.draw_series(dots)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[f64]) -> Series {
        let mark = |&value: &f64| {
            Some(Mark {
                value,
                spread: Some((value / 2.0, value * 2.0)),
            })
        };
        Series {
            name: "ours".into(),
            colour: OURS,
            marks: values.iter().map(mark).collect(),
        }
    }

    #[test]
    fn bars_name_each_category_and_figure() {
        let svg = bars("MB/s", &["1x1", "5x10"], &[series(&[123.0, 456.0])]);
        for part in [
            "<svg", "viewBox", "1x1", "5x10", "123", "456", "ours", "MB/s",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
    }

    #[test]
    fn lines_name_each_place() {
        let svg = lines("bw", "KiB", &[2, 6, 24], &[series(&[10.0, 100.0, 1000.0])]);
        for part in ["<polyline", ">\n2\n<", ">\n6\n<", ">\n24\n<", "KiB"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
    }

    #[test]
    fn nothing_measured_is_no_reason_to_fail() {
        let empty = Series {
            marks: vec![None],
            ..series(&[])
        };
        assert!(bars("t", &["c"], std::slice::from_ref(&empty)).contains("<svg"));
        assert!(lines("t", "x", &[2], &[empty]).contains("<svg"));
    }
}
