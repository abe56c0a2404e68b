//! Counts the words of a text and prints the most frequent ones.

use std::collections::HashMap;
use std::io::{self, Read};

fn count(text: &str) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()) {
        *counts.entry(word.to_lowercase()).or_insert(0) += 1;
    }
    counts
}

fn main() -> io::Result<()> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;

    let mut ranking: Vec<_> = count(&text).into_iter().collect();
    ranking.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    for (word, times) in ranking.iter().take(10) {
        println!("{times:6}  {word}");
    }
    Ok(())
}
