//! placeholder
/// r
#[must_use]
pub fn render(_r: &[crate::record::Record]) -> String {
    String::new()
}
